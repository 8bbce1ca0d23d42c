import { messageOf, OncewardError } from "../errors.ts";

/**
 * What a command ends with. `found`: it did its work and found something that a person should look at, such as stuck
 * tasks; so a script can tell that from a command that could not do its work.
 */
export const exitCodes = { fine: 0, error: 1, found: 2, interrupted: 130 } as const;

/** The command has found something: it ends with 2. */
export function foundSomething(): void {
  process.exitCode = exitCodes.found;
}

/** Ends a command: one clear sentence for people, exit code 1; the stack only for who asked for it. */
export class Failure extends Error {}

/** Somebody pressed Ctrl-C where a command asked: that is an answer, and needs no words. 130 is what shells expect. */
export class Interrupted extends Error {}

export function reportFailure(error: unknown, debug: boolean): void {
  if (error instanceof Interrupted) {
    process.exitCode = exitCodes.interrupted;
    return;
  }
  process.exitCode = exitCodes.error;
  if (debug) {
    console.error(error);
    return;
  }
  const code = error instanceof OncewardError ? ` (${error.code})` : "";
  console.error(`onceward: ${oneLine(messageOf(error))}${code}`);
  if (!(error instanceof Failure) && !(error instanceof OncewardError))
    console.error("Add --debug to see where it comes from.");
}

function oneLine(text: string): string {
  return text.split("\n", 1)[0] ?? text;
}
