/** Options that say which tasks, the same for every command that takes them. */
import type { Command } from "commander";
import { milliseconds } from "../duration.ts";
import { askedStates, type AskedState, type TaskFilter } from "../recover/filter.ts";
import { Failure } from "./fail.ts";

export interface FilterOptions {
  readonly where?: readonly string[];
  readonly state?: string;
  readonly type?: string;
  readonly lane?: string;
  readonly scope?: string;
  readonly account?: string;
  readonly error?: string;
  readonly contains?: string;
  readonly since?: string;
  readonly until?: string;
}

const fields = ["state", "type", "lane", "scope", "account", "error", "contains", "since", "until"] as const;

export function filterOptions(command: Command): Command {
  return command
    .option("--state <states>", `in these states, with commas: ${askedStates.join(", ")}`)
    .option("--type <type>", "events of this type; invoice.* is every one that begins so")
    .option("--lane <name>", "of a source or job: a scope and everything below it")
    .option("--scope <scope>", "of exactly this scope")
    .option("--account <id>", "of this account of the sender")
    .option("--error <text>", "with this text in their error")
    .option("--contains <text>", "with this text in their key")
    .option("--since <time>", 'recorded since then: a time such as 2026-11-16T03:00Z, or "2 hours" ago')
    .option("--until <time>", "recorded before then")
    .option(
      "--where <field=value...>",
      `the same as pairs: ${fields.map((field) => `${field}=…`).join(" ")}`,
    );
}

/** Undefined where nothing was said. */
export function filterOf(options: FilterOptions): TaskFilter | undefined {
  const said = { ...options, ...pairs(options.where ?? []) };
  const { state, type, lane, scope, account, error, contains, since, until } = said;
  if (fields.every((field) => said[field] === undefined)) return undefined;
  return {
    type,
    lane,
    scope,
    account,
    error,
    contains,
    states: state === undefined ? undefined : statesOf(state),
    since: since === undefined ? undefined : timeOf("--since", since),
    until: until === undefined ? undefined : timeOf("--until", until),
  };
}

function pairs(where: readonly string[]): FilterOptions {
  return Object.fromEntries(
    where.map((pair) => {
      const [, field, value] = /^([a-z]+)=(.+)$/s.exec(pair) ?? [];
      if (!fields.includes(field as (typeof fields)[number]))
        throw new Failure(`--where takes pairs such as type=invoice.paid; there are ${fields.join(", ")}.`);
      return [field, value];
    }),
  );
}

function statesOf(text: string): AskedState[] {
  const states = text.split(",").map((state) => state.trim() as AskedState);
  const odd = states.find((state) => !askedStates.includes(state));
  if (odd !== undefined)
    throw new Failure(`There is no state "${odd}"; there are ${askedStates.join(", ")}.`);
  return states;
}

/** A time, or how long ago. A time without a zone is refused: at three in the morning nobody guesses which was meant. */
export function timeOf(option: string, text: string): Date {
  if (/^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/i.test(text)) {
    const date = new Date(text);
    if (!Number.isNaN(date.getTime())) return date;
  }
  const ago = spanOf(text);
  if (ago !== undefined) return new Date(Date.now() - ago);
  throw new Failure(
    `${option} is a time such as 2026-11-16 or 2026-11-16T03:00Z, or how long ago such as "2 hours" or 2h, not "${text}".`,
  );
}

const letters: Record<string, string> = { s: "seconds", m: "minutes", h: "hours", d: "days", w: "weeks" };

/** Milliseconds of "90 seconds", "2 hours" or 2h; undefined for anything else. */
export function spanOf(text: string): number | undefined {
  const [, amount, letter] = /^(\d+)([smhdw])$/.exec(text) ?? [];
  try {
    return milliseconds(letter === undefined ? text : `${amount} ${letters[letter]}`);
  } catch {
    return undefined;
  }
}
