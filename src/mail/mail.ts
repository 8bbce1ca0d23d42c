import type { StepOptions, StepTools } from "../step/step.ts";
import { mailFailure } from "./failure.ts";
import { Handover, type Watchable } from "./handover.ts";

/**
 * The shape of a nodemailer transporter, as much of it as is used here. How far a failed mail came can be told of SMTP
 * and Sendmail alone, and with nodemailer's plugins (`use`); else a failure without an answer to it is unknown.
 */
export interface MailTransport<Message> extends Watchable {
  sendMail(message: Message): Promise<SentInfo>;
}

interface SentInfo {
  readonly accepted?: readonly unknown[] | undefined;
  readonly rejected?: readonly unknown[] | undefined;
  readonly response?: string | undefined;
}

export interface MailOptions {
  /** The right side of every Message-ID. Left out: the domain of the sender's address. */
  readonly domain?: string | undefined;
}

/** What is kept of a mail that a server has taken. */
export interface Sent {
  readonly messageId: string;
  readonly accepted: readonly string[];
  /** Recipients that the server refused, if only for now, while it took the mail for others: nobody tries them again. */
  readonly rejected: readonly string[];
  readonly response: string;
}

/** The `step` of any job, handler or action. */
type MailStep = (
  name: string,
  options: StepOptions<Sent>,
  fn: (tools: StepTools) => Promise<Sent>,
) => Promise<Sent>;

export interface Mailer<Message> {
  /**
   * Sends a mail as a step of its own. Mail servers know no keys: for the unknown outcome the default is
   * `never`, at most one mail, the task parked; give `verify` where the sent mails can be searched.
   */
  (
    step: MailStep,
    name: string,
    message: Message,
    options?: Pick<StepOptions<Sent>, "unknown">,
  ): Promise<Sent>;
  /** Sends a mail within a step, whose key becomes the Message-ID. */
  send(tools: Pick<StepTools, "key">, message: Message): Promise<Sent>;
}

/**
 * Wraps a nodemailer transport: each mail is a step, and its Message-ID is the step's key. A failure says what
 * is certain: not sent (tried again), refused for good (Fatal), or unknown (once the whole message had been
 * handed to a server that did not answer, and over transports that are neither SMTP nor Sendmail).
 *
 * @example
 * const mail = mailOnce(nodemailer.createTransport(process.env.SMTP_URL));
 * await mail(step, "welcome", { from: "shop@example.com", to, subject: "Welcome", text });
 */
export function mailOnce<Message extends object>(
  transport: MailTransport<Message>,
  options: MailOptions = {},
): Mailer<Message> {
  const handover = new Handover(transport);

  async function send(tools: Pick<StepTools, "key">, message: Message): Promise<Sent> {
    const messageId = `<${tools.key}@${options.domain ?? domainOf(message)}>`;
    const progress = handover.begin(messageId);
    try {
      const {
        accepted = [],
        rejected = [],
        response = "",
      } = await transport.sendMail({ ...message, messageId });
      return { messageId, accepted: accepted.map(String), rejected: rejected.map(String), response };
    } catch (error) {
      throw mailFailure(error, progress);
    } finally {
      handover.end(messageId);
    }
  }

  function once(
    step: MailStep,
    name: string,
    message: Message,
    { unknown = "never" }: Pick<StepOptions<Sent>, "unknown"> = {},
  ): Promise<Sent> {
    return step(name, { unknown }, (tools) => send(tools, message));
  }
  return Object.assign(once, { send });
}

/** The domain of the sender: an id is unique where its owner says so. */
function domainOf(message: object): string {
  const { from } = message as { from?: unknown };
  const address = typeof from === "object" && from !== null && "address" in from ? from.address : from;
  return /@([\w.-]+)>?\s*$/.exec(String(address))?.[1] ?? "localhost";
}
