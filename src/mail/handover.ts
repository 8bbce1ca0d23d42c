import type { Readable } from "node:stream";

/** How far the handing over of one mail has come. */
export interface Progress {
  /** False where nobody can tell how far it has come. */
  readonly watched: boolean;
  /** No byte has stayed with us: a server that did not answer may have the mail or not. */
  complete: boolean;
  /** It was asked for once more after that: what a server says of this does not tell what became of the first. */
  repeated?: boolean;
}

/** The part of a nodemailer transporter by which it can be watched. */
export interface Watchable {
  use?(step: string, plugin: (mail: unknown, done: (error?: null) => void) => void): unknown;
  /** What sends its mails. */
  readonly transporter?: { readonly name?: string };
}

/** A mail on its way through nodemailer, as its plugins see it. */
interface PassingMail {
  readonly data: { readonly messageId?: string };
  readonly message: { createReadStream(options?: object): Readable };
}

/**
 * What reads a message while it hands it over: nodemailer's own "SMTP" and "SMTP (pool)", and "Sendmail". Others send
 * the parts of a mail to an API, and whether that has them cannot be seen from here.
 */
const readsWhileSending = /^(SMTP|Sendmail)\b/;

/**
 * Watches when a message has been read to its end by whatever sends it. An SMTP connection reads it after the
 * server has said to go on, and ends it with a dot: before the end, no server can have taken the mail.
 */
export class Handover {
  readonly #underWay = new Map<string, Progress>();
  readonly #watches: boolean;

  constructor(transport: Watchable) {
    this.#watches =
      typeof transport.use === "function" && readsWhileSending.test(transport.transporter?.name ?? "");
    if (!this.#watches) return;
    transport.use?.("stream", (mail, done) => {
      this.#watch(mail as PassingMail);
      done();
    });
  }

  begin(messageId: string): Progress {
    const progress: Progress = { watched: this.#watches, complete: !this.#watches };
    this.#underWay.set(messageId, progress);
    return progress;
  }

  end(messageId: string): void {
    this.#underWay.delete(messageId);
  }

  #watch({ data, message }: PassingMail): void {
    const progress = this.#underWay.get(data.messageId ?? "");
    if (!progress) return;
    const open = message.createReadStream.bind(message);
    message.createReadStream = (options) => {
      const stream = open(options);
      // A pool sends a mail again by itself when its connection breaks, also where the server may have it.
      progress.repeated = progress.complete;
      if (progress.repeated) return stream.destroy(new Error("the message was handed over before"));
      return stream.once("end", () => (progress.complete = true));
    };
  }
}
