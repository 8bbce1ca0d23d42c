/** Worker processes that a test starts, and ends by their process id. */
import { type ChildProcess, fork } from "node:child_process";
import type { EngineOptions } from "../../src/worker/engine.ts";
import { ended, hasEnded } from "../support/postgres-process.ts";
import { program } from "../support/program.ts";
import { Watcher } from "./support.ts";

const child = await program(new URL("child.ts", import.meta.url));

export interface ChildOptions {
  readonly url: string;
  readonly lane: string;
  readonly engine?: Pick<EngineOptions, "leaseMs" | "pollMs" | "concurrency" | "graceMs">;
  /** Tasks wait until the parent says go. */
  readonly hold?: boolean;
  /** How long each task takes. */
  readonly workMs?: number;
  /** Tasks make sure that their claim holds before they have an effect. */
  readonly confirm?: boolean;
}

export type ChildWord =
  | { readonly word: "ready" }
  | { readonly word: "start" | "effect" | "refused"; readonly key: string; readonly attempt: number }
  | { readonly word: "ran"; readonly key: string; readonly attempt: number; readonly outcome: string };

export class WorkerProcess {
  readonly words: ChildWord[] = [];
  readonly #child: ChildProcess;
  readonly #watcher = new Watcher();

  constructor(options: ChildOptions) {
    this.#child = fork(child, [JSON.stringify(options)], { execArgv: [] });
    this.#child.on("message", (word: ChildWord) => {
      this.words.push(word);
      this.#watcher.tell();
    });
  }

  /** Starts one, and resolves once it looks for work. */
  static async start(options: ChildOptions): Promise<WorkerProcess> {
    const made = new WorkerProcess(options);
    await Promise.race([
      made.said("ready"),
      made.ended().then((how) => Promise.reject(new Error(`the worker ended before it was ready (${how})`))),
    ]);
    return made;
  }

  of(word: ChildWord["word"]): readonly ChildWord[] {
    return this.words.filter((one) => one.word === word);
  }

  /** Resolves once this was said so often. */
  said(word: ChildWord["word"], times = 1): Promise<void> {
    return this.#watcher.until(() => this.of(word).length >= times);
  }

  go(): void {
    this.#child.send("go");
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** How it ended: the signal, or the code. */
  async ended(): Promise<string> {
    await ended(this.#child);
    return this.#child.signalCode ?? String(this.#child.exitCode);
  }

  async kill(): Promise<void> {
    if (!hasEnded(this.#child)) this.#child.kill("SIGKILL");
    await ended(this.#child);
  }
}
