import type { Readable } from "node:stream";

/** How far the handing over of one mail has come. */
export interface Progress {
  /** No byte has stayed with us: a server that did not answer may have the mail or not. */
  complete: boolean;
}

/** A mail on its way through nodemailer, as its plugins see it. */
interface PassingMail {
  readonly data: { readonly messageId?: string };
  readonly message: { createReadStream(options?: object): Readable };
}

/**
 * Watches when a message has been read to its end by whatever sends it. An SMTP connection reads it after the
 * server has said to go on, and ends it with a dot: before the end, no server can have taken the mail.
 */
export class Handover {
  readonly #underWay = new Map<string, Progress>();
  readonly #watches: boolean;

  constructor(transport: {
    use?(step: string, plugin: (mail: unknown, done: (error?: null) => void) => void): unknown;
  }) {
    this.#watches = typeof transport.use === "function";
    transport.use?.("stream", (mail, done) => {
      this.#watch(mail as PassingMail);
      done();
    });
  }

  begin(messageId: string): Progress {
    const progress = { complete: !this.#watches };
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
      if (progress.complete) return stream.destroy(new Error("the message was handed over before"));
      return stream.once("end", () => (progress.complete = true));
    };
  }
}
