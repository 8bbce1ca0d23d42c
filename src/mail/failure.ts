import { Fatal } from "../errors.ts";
import { NotDone } from "../step/outcome.ts";
import type { Progress } from "./handover.ts";

/** What nodemailer hangs on its errors. */
interface MailError extends Error {
  readonly code?: string;
  /** The command that was under way: "RCPT TO", "DATA", "CONN", … */
  readonly command?: string;
  readonly responseCode?: number;
}

/** Commands that are about this mail and not about the session, as a login is. */
const aboutMail = new Set(["MAIL FROM", "RCPT TO", "DATA"]);

/**
 * What a failed mail means. Messages name the command and the code alone: the server's words, which stay
 * in the cause, tend to hold addresses.
 */
export function mailFailure(thrown: unknown, progress: Progress): Error {
  const error = thrown as MailError;
  const { command = "", responseCode } = error;
  if (responseCode !== undefined && aboutMail.has(command) && !progress.repeated) {
    const message = `The mail server answered ${responseCode} to ${command}.`;
    return responseCode >= 500
      ? new Fatal(message, { cause: error })
      : new NotDone(message, { cause: error });
  }
  const what = [error.code, command, responseCode].filter(Boolean).join(", ") || "no code";
  if (!progress.complete) {
    return new NotDone(
      `The mail was not sent: the connection to the mail server failed before its end (${what}).`,
      {
        cause: error,
      },
    );
  }
  return new Error(
    progress.watched
      ? `The mail server did not answer after it had got the whole mail (${what}).`
      : `The mail may have been sent: with this transport nobody can tell how far it came (${what}).`,
    { cause: error },
  );
}
