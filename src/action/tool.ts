import { stepKey } from "../step/key.ts";
import { fingerprintOf } from "../step/fingerprint.ts";
import type { Step, StepOptions } from "../step/step.ts";
import type { Engine } from "../worker/engine.ts";
import type { ActionFunction, ActionOptions, ActionOutcome } from "./action.ts";
import { runAction, takeAction } from "./run.ts";

export interface ToolTools<Tx = unknown> {
  /** Stable for this call: pass it on as Idempotency-Key or Message-ID. */
  readonly key: string;
  readonly signal: AbortSignal;
  /** Parts of the call whose results are kept. Not with `once`, which makes one step of the whole call. */
  readonly step: Step<Tx>;
}

export interface ToolOptions<Args, Result, Tx = unknown> extends Omit<
  ActionOptions,
  "input" | "scope" | "signal" | "cause"
> {
  readonly name: string;
  run(args: Args, tools: ToolTools<Tx>): Result | Promise<Result>;
  /** Makes one step of the whole call, with these options for its unknown outcome. */
  readonly once?: StepOptions<Result> | undefined;
}

/** Which call of a tool is meant. */
export interface ToolCall {
  /** The agent's run: the same when the agent is started again after a crash, another for another task. */
  readonly runId: string;
  /** Tells calls apart that have equal arguments and are meant to happen each for itself. */
  readonly nth?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Tool<Args, Result> {
  /** Runs the tool once for its arguments in this run, and returns its result; the same call again returns the same. */
  (args: Args, call: ToolCall): Promise<Result>;
  /** The same, and says how it came about. */
  outcome(args: Args, call: ToolCall): Promise<ActionOutcome<Result>>;
  readonly toolName: string;
}

/**
 * Wraps an agent's tool: its name, its arguments and the agent's run are the key. An agent that is
 * started again, or asks twice, gets the result of the first time.
 */
export function tool<Tx, Args, Result>(
  engine: Engine<Tx>,
  options: ToolOptions<Args, Result, Tx>,
): Tool<Args, Result> {
  const { name, run, once, ...rest } = options;
  const scope = `action/${name}`;
  const prepare = (args: Args, call: ToolCall): Parameters<typeof takeAction<Tx, Result, Args>> => {
    const key = [
      call.runId,
      fingerprintOf(args).slice(0, 32),
      ...(call.nth === undefined ? [] : [call.nth]),
    ].join(" ");
    const fn: ActionFunction<Result, Tx, Args> = (tools) => {
      const { step } = tools;
      if (once) return step("call", once, ({ key: own, signal }) => run(args, { key: own, signal, step }));
      const own = stepKey({ scope, key, generation: tools.generation }, "call");
      return run(args, { key: own, signal: tools.signal, step });
    };
    return [engine, key, fn, { ...rest, scope, input: args, signal: call.signal }];
  };
  const wrapped = (args: Args, call: ToolCall): Promise<Result> => runAction(...prepare(args, call));
  const outcome = (args: Args, call: ToolCall): Promise<ActionOutcome<Result>> =>
    takeAction(...prepare(args, call));
  return Object.assign(wrapped, { outcome, toolName: name });
}
