/** What the real database is given to be explored with: functions that read, restore and run in one round trip. */
import type { Table } from "./live.ts";

/**
 * A clock in the explorer's hands: for one statement that runs alone, a setting; else a row, which also those see
 * who wait for a lock while it moves.
 */
export const clock = `
  create schema explore;
  create table explore.clock (at timestamptz not null);
  insert into explore.clock values ('epoch');
  create or replace function onceward.now() returns timestamptz language plpgsql volatile as $fn$
    begin
      if coalesce(current_setting('explore.clock', true), '') <> '' then
        return current_setting('explore.clock')::timestamptz;
      end if;
      return (select at from explore.clock);
    end $fn$;`;

export function functions(tables: readonly Table[]): string {
  const written = ({ name }: Table): string =>
    `(select coalesce(json_agg(t::text order by t::text collate "C"), '[]') from ${name} t)`;
  const touched = ({ name }: Table): string =>
    ["inserted", "updated", "deleted"]
      .map((what) => `pg_stat_get_xact_tuples_${what}('${name}'::regclass) > 0`)
      .join(" or ");
  const restored = tables.map(
    ({ name }, i) => `
      if jsonb_typeof(state -> ${i}) = 'array' then
        delete from ${name};
        if state -> ${i} <> '[]' then
          insert into ${name}
          select (v.r).* from (select e.t::${name} as r from jsonb_array_elements_text(state -> ${i}) as e(t) offset 0) v;
        end if;
      end if;`,
  );
  return `
    create function explore.dump() returns text language plpgsql as $fn$
      begin
        return json_build_array(${tables.map(written).join(", ")})::text;
      end $fn$;
    -- Of the tables that this transaction wrote to.
    create function explore.changed() returns text language plpgsql as $fn$
      declare
        state json[] := array_fill('null'::json, array[${tables.length}]);
      begin
        ${tables.map((table, i) => `if ${touched(table)} then state[${i + 1}] := ${written(table)}; end if;`).join("\n")}
        return array_to_json(state)::text;
      end $fn$;
    create function explore.restore(state jsonb) returns text language plpgsql as $fn$
      begin
        ${restored.join("")}
        return 'restored';
      end $fn$;
    create function explore.set_clock(clock_ms double precision) returns text language sql as $fn$
      select set_config('explore.clock', to_timestamp(clock_ms / 1000)::text, true);
      $fn$;
    create function explore.run_alone(state_before jsonb, clock_ms double precision, statement text,
        out answer text, out code text, out message text, out state text) language plpgsql as $fn$
      begin
        if state_before is not null then
          perform explore.restore(state_before);
        end if;
        perform explore.set_clock(clock_ms), setseed(0.5);
        begin
          execute 'select json_agg(to_json(s))::text from (' || statement || ') s' into answer;
        exception when others then
          get stacked diagnostics code = returned_sqlstate, message = message_text;
        end;
        state := explore.changed();
      end $fn$;
    create function explore.run_transaction(state_before jsonb, statements text[], clocks double precision[], keep boolean,
        out answer text, out affected integer, out code text, out message text, out state text) language plpgsql as $fn$
      begin
        if state_before is not null then
          perform explore.restore(state_before);
        end if;
        begin
          for i in 1..cardinality(statements) loop
            perform explore.set_clock(clocks[i]), setseed(0.5);
            if statements[i] ilike 'select%' then
              execute 'select json_agg(to_json(s))::text from (' || statements[i] || ') s' into answer;
            else
              execute statements[i];
            end if;
            get diagnostics affected = row_count;
          end loop;
          if not keep then
            raise exception using errcode = 'UNDO0';
          end if;
          state := explore.changed();
        exception when others then
          if sqlstate <> 'UNDO0' then
            get stacked diagnostics code = returned_sqlstate, message = message_text;
          end if;
        end;
      end $fn$;`;
}
