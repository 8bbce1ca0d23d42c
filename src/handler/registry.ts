import { OncewardError } from "../errors.ts";
import { handlerSegment } from "./scope.ts";
import type { Handling, HandlerOptions, HandlingTogether, TogetherHandlerOptions } from "./handler.ts";

/** A handler as the rest of the code sees it: which events it gets was a matter of types. */
export interface Registered<Tx> {
  readonly name: string;
  readonly pattern: string;
  readonly options: HandlerOptions<unknown, unknown> | TogetherHandlerOptions<unknown>;
  readonly handle: (given: Handling<unknown, Tx, unknown> | HandlingTogether<unknown, Tx>) => unknown;
}

/** Types come from senders, and some do not sign them: what is remembered of them is bounded. */
const rememberedTypes = 1000;

/** The handlers of one source, by what they were registered for. */
export class Registry<Tx> {
  readonly #byName = new Map<string, Registered<Tx>>();
  readonly #found = new Map<string, readonly Registered<Tx>[]>();
  readonly #all: Registered<Tx>[] = [];
  #fallback: Registered<Tx> | undefined;

  add(registered: Registered<Tx>): void {
    this.#name(registered);
    this.#all.push(registered);
  }

  setFallback(registered: Registered<Tx> | undefined): void {
    if (registered) this.#name(registered);
    this.#fallback = registered;
  }

  /** Every handler that an event of this type has, in the order they were registered. */
  of(type: string): readonly Registered<Tx>[] {
    const known = this.#found.get(type);
    if (known) return known;
    const found = this.#all.filter(({ pattern }) => matches(pattern, type));
    if (found.length === 0 && this.#fallback) found.push(this.#fallback);
    if (this.#found.size < rememberedTypes) this.#found.set(type, found);
    return found;
  }

  /** All of them, the fallback last. */
  get all(): readonly Registered<Tx>[] {
    return this.#fallback ? [...this.#all, this.#fallback] : this.#all;
  }

  /** By the part of a scope that names it. */
  named(segment: string): Registered<Tx> | undefined {
    return this.#byName.get(segment);
  }

  #name(registered: Registered<Tx>): void {
    const { name } = registered;
    if (!/^[\x21-\x7e]{1,200}$/.test(name)) {
      throw new OncewardError(
        "config_invalid",
        "The name of a handler is 1 to 200 visible ASCII characters.",
      );
    }
    const segment = handlerSegment(name);
    if (this.#byName.has(segment)) {
      throw new OncewardError(
        "config_invalid",
        `There are two handlers named ${name}. Give each a name of its own: on(type, { name: "…" }, handler).`,
      );
    }
    this.#byName.set(segment, registered);
    this.#found.clear();
  }
}

/** `invoice.*` is every type that begins with `invoice.`; a `*` anywhere else is refused. */
export function checkPattern(pattern: string): void {
  const star = pattern.indexOf("*");
  if (pattern !== "" && (star < 0 || star === pattern.length - 1)) return;
  throw new OncewardError(
    "config_invalid",
    'A handler is registered for a type such as "invoice.paid", or for a beginning and a star at its end, such as "invoice.*".',
  );
}

function matches(pattern: string, type: string): boolean {
  return pattern.endsWith("*") ? type.startsWith(pattern.slice(0, -1)) : pattern === type;
}
