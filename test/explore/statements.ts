/** Statements by number: they are long, few, and asked for often. */
import type { Statement } from "./live.ts";
import { verbOf } from "./params.ts";
import { ageless } from "./state.ts";

export interface Known {
  readonly number: number;
  readonly verb: string | undefined;
  /** Somebody says hello, goodbye or that there is work. */
  readonly isPresence: boolean;
}

export class Statements {
  readonly #known = new Map<string, Map<string, Known>>();
  readonly #last = new WeakMap<Statement, Known>();
  #count = 0;

  /** With what begins the transaction whose first one it is. */
  of(statement: Statement, begin = ""): Known {
    const last = this.#last.get(statement);
    if (last) return last;
    const text = begin + statement.text;
    let same = this.#known.get(text);
    if (!same) this.#known.set(text, (same = new Map<string, Known>()));
    let values = "";
    for (const value of statement.values) values += `${textOf(value)}\u0001`;
    let known = same.get(values);
    if (!known) same.set(values, (known = this.#learn(statement, values)));
    this.#last.set(statement, known);
    return known;
  }

  #learn(statement: Statement, values: string): Known {
    const verb = verbOf(statement);
    const isPresence = /\.(hello|goodbye|wake)\(/.test(statement.text);
    if (verb && !isPresence && !ageless.has(verb))
      throw new Error(`Does ${verb} ask how long ago something was? If not, add it in state.ts.`);
    if (/\d{4}-\d\d-\d\d[ T]\d\d:/.test(values))
      throw new Error(`A statement names a time, where clocks may differ: ${statement.text} ${values}`);
    return { number: ++this.#count, verb, isPresence };
  }
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (!(value instanceof Uint8Array)) return `\u0002${JSON.stringify(value)}`;
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("latin1");
}
