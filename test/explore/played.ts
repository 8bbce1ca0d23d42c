/** What a schedule did, step by step, and how it ended. */
import type { Option } from "./option.ts";
import type { Reply } from "./reply.ts";
import type { End, Violation } from "./scene.ts";

export interface Step {
  readonly atMs: number;
  readonly option: Option;
  readonly reply: Reply | "blocked" | undefined;
  readonly answer: unknown;
  readonly inTransaction: boolean;
}

export interface Played {
  /** For every point with a choice, the cost of each option. */
  readonly points: readonly (readonly number[])[];
  readonly violations: readonly Violation[];
  readonly steps: readonly Step[];
  readonly end: End;
}
