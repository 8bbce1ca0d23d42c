import { causeOf, errorName, type Attempted, type Observer } from "../observe.ts";
import type { Receipt } from "../receive/receiver.ts";

type Fields = Record<string, string | number | undefined>;

/**
 * One line a fact on standard output: readable on a terminal, JSON elsewhere. Only identities, outcomes
 * and times; payloads, headers and messages of errors that are not ours stay where they are.
 */
export class Log implements Observer {
  readonly #pretty: boolean;

  constructor(pretty = process.stdout.isTTY) {
    this.#pretty = pretty;
  }

  say(message: string, fields: Fields = {}): void {
    this.#write("info", message, fields);
  }

  received({ source, outcome, status, code, error, type, scope, key, ms }: Receipt): void {
    const level = status >= 500 ? "error" : status >= 400 ? "warn" : "info";
    this.#write(level, `received ${outcome}`, {
      source,
      status,
      code,
      error,
      type,
      scope,
      key,
      ms: rounded(ms),
    });
  }

  attempted({ scope, key, type, attempt, outcome, state, error, ms }: Attempted): void {
    const level = outcome === "failed" ? (state === "waiting" ? "warn" : "error") : "info";
    this.#write(level, `attempt ${outcome}`, {
      scope,
      key,
      type: type ?? undefined,
      attempt,
      state,
      error,
      ms: rounded(ms),
    });
  }

  troubled(error: unknown): void {
    this.#write("error", causeOf(error), { error: errorName(error) });
  }

  #write(level: string, message: string, fields: Fields): void {
    if (!this.#pretty) {
      console.log(JSON.stringify({ at: new Date().toISOString(), level, message, ...fields }));
      return;
    }
    const rest = Object.entries(fields).filter(([, value]) => value !== undefined);
    const mark = level === "error" ? "✗" : level === "warn" ? "!" : "·";
    console.log(`${mark} ${message}  ${rest.map(([name, value]) => `${name}=${value}`).join(" ")}`);
  }
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}
