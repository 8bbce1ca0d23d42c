/**
 * The store as `npm start` serves it, in a test's hands: Stripe's own event of a test clock moves the ledger's time, and
 * the first order whose id holds "failing" fails in the middle of its handler.
 */
import { defineConfig } from "onceward";
import { billing, once } from "../../../examples/store/once.ts";
import store from "../../../examples/store/onceward.config.ts";
import { fakeClock } from "../../support/clock.ts";

const clock = "test_helpers.test_clock.advancing";

billing.on(clock, async ({ event, tx }) => {
  await tx.query(
    "update onceward.test_clock set ahead = to_timestamp($1::double precision) - clock_timestamp()",
    [event.data.object.frozen_time],
  );
});
// What has become due is looked for at once instead of at the next poll.
once.observe({ attempted: ({ type }) => type === clock && once.engine.worker.wake() });

export default defineConfig({
  ...store,
  async setup(database) {
    await store.setup?.(database);
    await fakeClock(database);
    // A sequence is not taken back with its transaction: it counts the attempts that failed.
    await database.query(`
      do $do$ begin
        create sequence if not exists store.failures;
        create or replace function store.fail_first() returns trigger language plpgsql as $fn$
        begin
          if strpos(new.session_id, 'failing') > 0 and nextval('store.failures') = 1 then
            raise exception 'the first attempt fails';
          end if;
          return new;
        end $fn$;
        create or replace trigger fail_first before insert on store.orders
          for each row execute function store.fail_first();
      end $do$`);
  },
});
