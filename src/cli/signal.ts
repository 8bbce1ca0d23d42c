import type { Command } from "commander";
import type { Signalled } from "../step/signal.ts";
import { plain } from "../terminal.ts";
import { ledgerCommand, signed, withLedger, type ChangeOptions, type LedgerOptions } from "./command.ts";
import { Failure, foundSomething } from "./fail.ts";
import { jsonOf, locateOne } from "./locate.ts";
import { type WaitingStep, waitingSteps } from "./waiting.ts";

interface SignalCommand extends LedgerOptions, Pick<ChangeOptions, "actor"> {
  readonly scope?: string;
  readonly value?: string;
  readonly fingerprint?: string;
}

/**
 * `onceward signal KEY NAME`: an approval, or another answer that a task waits for. Its value is all that is kept of it
 * besides who sent it, so there is no --reason.
 */
export function signalCommand(): Command {
  return ledgerCommand("signal", "tell a task what it waits for, such as an approval")
    .argument("<key>", "the key of the task")
    .argument("<name>", "what it waits for: the name in step.waitFor(name)")
    .option("--value <json>", "what you say", "true")
    .option("--fingerprint <text>", "of what you approve, where the task wants one: see onceward show KEY")
    .option("--actor <name>", "who says it (ONCEWARD_ACTOR, else user@host)")
    .option("--scope <scope>", "where several have this key: the one of this scope")
    .action(
      withLedger<SignalCommand>(async ({ recovery, once, out }, options, [key = "", name = ""]) => {
        const task = await locateOne(recovery, key, options.scope);
        const { actor } = signed(options);
        const { fingerprint } = options;
        const waits = waitingSteps((await recovery.show(task)) ?? { steps: [] });
        const sent = await once.signal(task, name, jsonOf(options.value ?? "true"), { actor, fingerprint });
        if (sent.outcome !== "sent") throw new Failure(refusal(sent, plain(key)));
        const awaited = waits.some(({ step }) => step === name);
        // A name that nobody waits for is a slip, or for later; only a person can tell which.
        if (!awaited && waits.length > 0) foundSomething();
        out.answer({ ...task, name, ...sent, waits }, () =>
          awaited ? "Sent; it goes on." : kept(key, name, waits),
        );
      }),
    );
}

function kept(key: string, name: string, waits: readonly WaitingStep[]): string {
  const now = waits.length === 0 ? "nothing" : waits.map(({ step }) => step).join(", ");
  return plain(`Kept for when ${key} waits for ${name}. Now it waits for ${now}.`);
}

function refusal(sent: Signalled, key: string): string {
  if (sent.outcome === "duplicate") return `Somebody told ${key} before, and the first word counts.`;
  if (sent.outcome === "conflict")
    return `${key} waits for the approval of something else: its fingerprint is ${plain(sent.expected)}.`;
  return sent.outcome === "late" ? `${key} waits for this no more.` : `There is no task with the key ${key}.`;
}
