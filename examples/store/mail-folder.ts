import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createTransport, type SendMailOptions } from "nodemailer";

export const mailFolder = "./.onceward/mail";

/** Without SMTP_URL: every mail becomes a file, named after its Message-ID. */
export class MailFolder {
  readonly #composer = createTransport({ streamTransport: true, buffer: true });

  async sendMail(mail: SendMailOptions): Promise<{ accepted: unknown[] }> {
    const { message, messageId, envelope } = await this.#composer.sendMail(mail);
    await mkdir(mailFolder, { recursive: true });
    const file = join(mailFolder, `${messageId.replaceAll(/[<>/\\]/g, "")}.eml`);
    // Whoever reads the folder finds whole mails only.
    await writeFile(`${file}.part`, message as Buffer);
    await rename(`${file}.part`, file);
    return { accepted: envelope.to };
  }
}
