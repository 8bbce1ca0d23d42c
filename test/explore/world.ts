/** The world outside: providers that are called over the network, and remember what was done to them. */
import type { Op, Process } from "./process.ts";

export interface ProviderOptions {
  /** A second call with the same key has no second effect and gets the first answer. */
  readonly honoursKeys: boolean;
  /**
   * Where keys are not honoured, how often the same may be done: `once` for steps that are never repeated, and for
   * those that are repeated when `look` said that nothing was done; `any` for steps that may be repeated.
   */
  readonly repeats?: "once" | "any";
}

export interface Call {
  readonly key: string;
  readonly what: string;
  readonly process: string;
  /** False where a key was honoured. */
  readonly hadEffect: boolean;
  /** It was under way while another one was told that nothing had been done. */
  readonly overlooked: boolean;
}

/** A mailer, a payment provider. */
export class Provider {
  readonly name: string;
  readonly calls: Call[] = [];
  readonly #options: ProviderOptions;
  readonly #running: () => Process;
  /** Calls that a process has made and that have not arrived, by key; true where somebody looked meanwhile. */
  readonly #underWay = new Map<Op, { key: string; overlooked: boolean }>();

  constructor(name: string, options: ProviderOptions, running: () => Process) {
    this.name = name;
    this.#options = options;
    this.#running = running;
  }

  /** Has its effect, and returns a receipt. Called by the code of a process. */
  send(key: string, what: string): Promise<string> {
    const { op, answer } = this.#submit(`${this.name}: ${what}`, (process) => {
      const known = this.#options.honoursKeys && this.calls.some((call) => call.key === key);
      const overlooked = this.#underWay.get(op)?.overlooked ?? false;
      this.#underWay.delete(op);
      this.calls.push({ key, what, process: process.name, hadEffect: !known, overlooked });
      return `receipt of ${what}`;
    });
    this.#underWay.set(op, { key, overlooked: false });
    return answer;
  }

  /** Whether a call with this key had its effect. */
  look(key: string): Promise<boolean> {
    return this.#submit(`${this.name}: was it done?`, () => {
      for (const call of this.#underWay.values()) if (call.key === key) call.overlooked = true;
      return this.calls.some((call) => call.key === key && call.hadEffect);
    }).answer;
  }

  /** Effects, by what they were. */
  effects(what: string): number {
    return this.calls.filter((call) => call.hadEffect && call.what === what).length;
  }

  /** What was done more often than it may be. */
  tooMany(): string[] {
    const { honoursKeys, repeats = "once" } = this.#options;
    if (repeats === "any" && !honoursKeys) return [];
    const done = this.calls.filter((call) => call.hadEffect && !call.overlooked).map((call) => call.what);
    const often = new Set(done.filter((what, i) => done.indexOf(what) < i));
    return [...often].map((what) => `${this.name} did "${what}" ${this.effects(what)} times`);
  }

  #submit<T>(what: string, effect: (process: Process) => T): { op: Op; answer: Promise<T> } {
    const process = this.#running();
    let op!: Op;
    const answer = new Promise<T>((resolve, reject) => {
      op = {
        process,
        who: process.name,
        kind: "outside",
        what,
        silent: false,
        effect: () => effect(process),
        succeed: resolve as (answer: unknown) => void,
        fail: reject,
      };
      process.submit(op);
    });
    return { op, answer };
  }
}
