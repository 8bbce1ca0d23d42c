import { createInterface } from "node:readline/promises";
import { Failure, Interrupted } from "./fail.ts";

/** More tasks than a person has looked at one by one. */
export const large = 100;

/**
 * Asks before a large change. `--yes` is the answer beforehand; without it and without a terminal nothing is changed,
 * since nobody is there to be asked.
 */
export async function confirm(what: string, options: { readonly yes?: boolean | undefined }): Promise<void> {
  if (options.yes) return;
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw new Failure(`${what} Nothing was changed: say --yes to do it where nobody can be asked.`);
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${what} Go on? [y/N] `).catch((error: unknown) => {
      process.stderr.write("\n");
      throw new Interrupted(undefined, { cause: error });
    });
    if (!/^y(es)?$/i.test(answer.trim())) throw new Failure("Nothing was changed.");
  } finally {
    terminal.close();
  }
}
