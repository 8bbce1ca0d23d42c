import { OncewardError } from "../errors.ts";

/** Below the time limits of senders, so that a database which does not answer becomes a 503 and not a silence. */
const withinMs = 8_000;

/** The ledger's answer, or `database_unavailable` where none comes. What it may have recorded all the same is then a duplicate. */
export function timely<T>(answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(giveUp, withinMs, reject);
    answer.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error as Error);
      },
    );
  });
}

function giveUp(reject: (error: OncewardError) => void): void {
  reject(new OncewardError("database_unavailable", `The database did not answer within ${withinMs} ms.`));
}
