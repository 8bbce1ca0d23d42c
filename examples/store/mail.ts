import { createTransport, type SendMailOptions } from "nodemailer";
import { mailOnce, type JobTools } from "onceward";
import { MailFolder } from "./mail-folder.ts";
import { once } from "./once.ts";

export interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

const smtp = process.env["SMTP_URL"];
const mailer = mailOnce<SendMailOptions>(smtp ? createTransport(smtp) : new MailFolder());

/**
 * A mail server knows no keys: where it may have a mail and did not say so, that mail is parked for a person instead of
 * being sent twice. A file is named after its key, so that writing it again changes nothing.
 */
const unknown = smtp ? "never" : "retry";

/** Mails go out in a job, after the commit: a handler that failed has mailed nobody, one that is tried again mails once. */
export const mail = once.job("mail", async ({ input, step }: JobTools<Mail>) => {
  await mailer(step, "send", { from: "store@example.com", ...input }, { unknown });
});
