import type { Command } from "commander";
import type { Signalled } from "../step/signal.ts";
import { plain } from "../terminal.ts";
import { changingCommand, signed, withLedger, type ChangeOptions, type LedgerOptions } from "./command.ts";
import { Failure } from "./fail.ts";
import { jsonOf, locateOne } from "./locate.ts";

interface SignalCommand extends LedgerOptions, ChangeOptions {
  readonly scope?: string;
  readonly value?: string;
  readonly fingerprint?: string;
}

/** `onceward signal KEY NAME`: an approval, or another answer that a task waits for. */
export function signalCommand(): Command {
  return changingCommand("signal", "tell a task what it waits for, such as an approval")
    .argument("<key>", "the key of the task")
    .argument("<name>", "what it waits for: the name in step.waitFor(name)")
    .option("--value <json>", "what you say", "true")
    .option("--fingerprint <text>", "of what you approve, where the task wants one: see onceward show KEY")
    .option("--scope <scope>", "where several have this key: the one of this scope")
    .action(
      withLedger<SignalCommand>(async ({ recovery, once, out }, options, [key = "", name = ""]) => {
        const task = await locateOne(recovery, key, options.scope);
        const { actor } = signed(options);
        const { fingerprint } = options;
        const sent = await once.signal(task, name, jsonOf(options.value ?? "true"), { actor, fingerprint });
        if (sent.outcome === "sent") return out.answer({ ...task, name, ...sent }, () => "Sent; it goes on.");
        throw new Failure(refusal(sent, plain(key)));
      }),
    );
}

function refusal(sent: Signalled, key: string): string {
  if (sent.outcome === "duplicate") return `Somebody told ${key} before, and the first word counts.`;
  if (sent.outcome === "conflict")
    return `${key} waits for the approval of something else: its fingerprint is ${plain(sent.expected)}.`;
  return sent.outcome === "late" ? `${key} waits for this no more.` : `There is no task with the key ${key}.`;
}
