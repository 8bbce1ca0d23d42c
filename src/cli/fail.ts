import { messageOf, OncewardError } from "../errors.ts";

/** Ends a command: one clear sentence for people, exit code 1; the stack only for who asked for it. */
export class Failure extends Error {}

export function reportFailure(error: unknown, debug: boolean): void {
  process.exitCode = 1;
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
