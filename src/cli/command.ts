/** What the commands that work on a ledger have in common. */
import { hostname, userInfo } from "node:os";
import { Command } from "commander";
import type { Recovery } from "../recover/recovery.ts";
import { type Opened, openLedger, type OpenOptions } from "./open.ts";
import { Output } from "./output.ts";

export interface Session extends Opened {
  readonly recovery: Recovery;
  readonly out: Output;
}

export interface LedgerOptions extends OpenOptions {
  readonly json?: boolean;
}

/** Options of commands that change something for a person. */
export interface ChangeOptions {
  readonly yes?: boolean;
  readonly actor?: string;
  readonly reason?: string;
}

/** A command with the options that name its ledger, and --json. */
export function ledgerCommand(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option("--config <path>", "folder with an onceward.config.ts, or the file (else the one in this folder)")
    .option(
      "--database <url>",
      "a database without a configuration (else DATABASE_URL, else the embedded one)",
    )
    .option("--schema <name>", "the ledger's schema in that database", "onceward")
    .option("--json", "print one JSON document");
}

/** A command that changes something: who does it and why is kept in the audit table. */
export function changingCommand(name: string, description: string): Command {
  return ledgerCommand(name, description)
    .option("--yes", "do not ask before a large change")
    .option("--actor <name>", "who does it (ONCEWARD_ACTOR, else user@host)")
    .option("--reason <text>", "why");
}

/** The action of a command: opens the ledger, does the work, closes it whatever happens. */
export function withLedger<Options extends LedgerOptions>(
  work: (session: Session, options: Options, args: readonly string[]) => Promise<void>,
): (...given: unknown[]) => Promise<void> {
  return async (...given) => {
    const command = given.at(-1) as Command;
    const options = command.opts<Options>();
    const opened = await openLedger(options);
    try {
      const session = { ...opened, recovery: opened.once.recovery, out: new Output(options) };
      await work(session, options, command.args);
    } finally {
      await opened.close();
    }
  };
}

/** Who and why, for the audit table. */
export function signed(options: ChangeOptions): { actor: string; reason?: string } {
  const actor = options.actor ?? process.env["ONCEWARD_ACTOR"] ?? `${userName()}@${hostname()}`;
  return { actor, ...(options.reason !== undefined && { reason: options.reason }) };
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return "somebody"; // A container's user need not have a name.
  }
}
