#!/usr/bin/env node
import { makeProgram } from "./program.ts";
import { reportFailure } from "./fail.ts";

const program = makeProgram();

// A pool of the user's own configuration would keep the process for a while; only `serve` stays on.
program.hook("postAction", (_, command) => {
  if (command.name() !== "serve") leave();
});

program.parseAsync().catch((error: unknown) => {
  reportFailure(error, program.opts<{ debug?: boolean }>().debug === true);
  leave();
});

/** Ends the process once everything is written, also into a pipe. */
function leave(): void {
  process.stdout.write("", () => process.stderr.write("", () => process.exit()));
}
