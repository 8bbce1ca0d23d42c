import type { JobTools } from "onceward";
import { once } from "./once.ts";
import { sendMail } from "./mailer.ts";

export interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** Mails go out in a job, after the commit: a handler that failed has mailed nobody, one that retries mails once. */
export const mail = once.job("mail", async ({ input, step }: JobTools<Mail>) => {
  // The key is the same in every attempt, and becomes the Message-ID.
  await step("send", ({ key }) => sendMail(key, input));
});
