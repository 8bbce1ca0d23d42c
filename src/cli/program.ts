import { Command } from "commander";
import { backfillCommand } from "./backfill.ts";
import { ownVersion } from "../package.ts";
import { auditCommand } from "./audit.ts";
import { cancelCommand } from "./cancel.ts";
import { doctorCommand } from "./doctor.ts";
import { initCommand } from "./init.ts";
import { listCommand } from "./list.ts";
import { pruneCommand } from "./prune.ts";
import { replayCommand } from "./replay.ts";
import { resolveCommand } from "./resolve.ts";
import { migrateCommand, sqlCommand } from "./schema.ts";
import { serve } from "./serve.ts";
import { showCommand } from "./show.ts";
import { signalCommand } from "./signal.ts";
import { statusCommand } from "./status.ts";
import { storm, trigger } from "./storm/storm.ts";
import { stuckCommand } from "./stuck.ts";

/** The command line, without running it. */
export function makeProgram(): Command {
  const program = new Command("onceward")
    .description("Webhooks, jobs and agent actions that take effect once, on your Postgres")
    .version(ownVersion())
    .option("--debug", "show where errors come from")
    .showHelpAfterError("(see onceward --help)");

  program
    .command("serve")
    .description("receive webhooks and run what is due")
    .argument("[target]", "folder with an onceward.config.ts, or the file", ".")
    .option("--port <number>", "port to listen on (PORT, else 4400)")
    .option("--host <address>", "address to listen on (HOST, else 127.0.0.1)")
    .action(serve);

  program.addCommand(initCommand());

  program.addCommand(migrateCommand());

  program
    .command("sql")
    .description("print the ledger's schema as SQL, for people who run their own migrations")
    .option("--schema <name>", "the ledger's schema", "onceward")
    .action(sqlCommand);

  program
    .command("storm")
    .description("send what Stripe would send, as badly as it can, and look at what became of it")
    .option("--url <url>", "a running server", "http://127.0.0.1:4400")
    .option("--type <types>", "types of events, separated by commas", "checkout.session.completed")
    .option("--events <number>", "how many different events", "1")
    .option("--deliveries <number>", "how often each is delivered", "25")
    .option("--concurrency <number>", "how many deliveries at once", "25")
    .option("--reorder", "deliver in any order")
    .option("--twin", "send a twin of each event: another id for the same fact")
    .option("--kill [target]", "start an own server on this configuration, and kill it at random moments")
    .option("--kills <number>", "how often it is killed", "5")
    .option("--json", "print one line of JSON")
    .action(storm);

  program
    .command("trigger")
    .description("send one event of a type")
    .argument("<type>", "such as checkout.session.completed")
    .option("--url <url>", "a running server", "http://127.0.0.1:4400")
    .action(trigger);

  // Whoever is on call: see docs/recovery.md.
  program.addCommand(statusCommand());
  program.addCommand(stuckCommand());
  program.addCommand(listCommand());
  program.addCommand(showCommand());
  program.addCommand(replayCommand());
  program.addCommand(backfillCommand());
  program.addCommand(cancelCommand());
  program.addCommand(resolveCommand());
  program.addCommand(signalCommand());
  program.addCommand(auditCommand());
  program.addCommand(pruneCommand());
  program.addCommand(doctorCommand());

  return program;
}
