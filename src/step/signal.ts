import type { TaskIdentity } from "../ledger/task.ts";
import type { Engine } from "../worker/engine.ts";
import { fingerprintOf } from "./fingerprint.ts";
import { encodeValue } from "./value.ts";

export interface SignalOptions {
  /** What is approved; where the task waits with `of`, only an equal one counts. */
  readonly of?: unknown;
  /** Or its fingerprint, where somebody was shown what the ledger keeps of the waiting step. */
  readonly fingerprint?: string | undefined;
  /** Who says it, for people who look later. */
  readonly actor?: string | undefined;
}

export type Signalled =
  /** It will go on. `duplicate`: somebody was first, whose word counts. */
  | { readonly outcome: "sent" | "duplicate" }
  /** It has finished, or waits no more; or there is no such task. */
  | { readonly outcome: "late" | "missing" }
  /** It waits for the approval of something else. */
  | { readonly outcome: "conflict"; readonly expected: string };

/** Tells a task what it waits for with `step.waitFor(name)`, or will wait for. The first word counts. */
export async function sendSignal<Tx>(
  engine: Engine<Tx>,
  task: TaskIdentity,
  name: string,
  value?: unknown,
  options: SignalOptions = {},
): Promise<Signalled> {
  await engine.ready();
  const { of, actor } = options;
  const fingerprint = of === undefined ? options.fingerprint : fingerprintOf(of);
  const text = encodeValue(value);
  const sent = await engine.ledger.verbs.signal(task, {
    name,
    ...(text !== undefined && { value: text }),
    ...(fingerprint !== undefined && { fingerprint }),
    ...(actor !== undefined && { actor }),
  });
  if (sent.outcome === "sent") engine.worker.announce(task.scope);
  return sent;
}
