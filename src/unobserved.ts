import { type Attempted, causeOf, type Observer } from "./observe.ts";
import { plain } from "./terminal.ts";

/** After so long the same trouble is worth another line: it may be another outage. */
const againAfterMs = 60 * 60_000;
/** More causes than a setup can have; what varies without end must not be remembered without end. */
const mostCauses = 100;

/**
 * The observer where there is no other: who has set up nothing must still learn that something fails. One line on
 * standard error, without the messages of errors that are not ours, since they can quote people's data.
 */
export class Unobserved implements Observer {
  readonly #said = new Map<string, number>();

  attempted({ scope, key, attempt, outcome, state, error = "Error" }: Attempted): void {
    if (outcome !== "failed") return;
    const end = state === "waiting" ? "" : `, and the task is ${state}`;
    say(`${scope} ${key}: attempt ${attempt} failed (${error})${end}; ${lookAt(key)}`);
  }

  /** A database that is away troubles every request and every poll: once for a cause is enough. */
  troubled(error: unknown): void {
    const cause = causeOf(error);
    const now = performance.now();
    const before = this.#said.get(cause);
    if (before === undefined ? this.#said.size >= mostCauses : now - before < againAfterMs) return;
    this.#said.set(cause, now);
    say(cause);
  }
}

/** The command that tells the reason, as a shell takes it. */
function lookAt(key: string): string {
  const word = /^[\w:.@/-]+$/.test(key) ? key : `'${key.replaceAll("'", `'\\''`)}'`;
  return `see: onceward show ${word}`;
}

function say(line: string): void {
  console.error(plain(`onceward: ${line}`));
}
