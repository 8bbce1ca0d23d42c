import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createTransport } from "nodemailer";
import type { Mail } from "./mail.ts";

const smtp = process.env["SMTP_URL"];
export const mailFolder = "./.onceward/mail";

/** By SMTP_URL; without one a mail becomes a file, named after its key, so that a second one would replace the first. */
export async function sendMail(key: string, mail: Mail): Promise<void> {
  const message = { ...mail, from: "store@example.com", messageId: `<${key}@store.example.com>` };
  if (smtp) {
    await createTransport(smtp).sendMail(message);
    return;
  }
  const { message: text } = await createTransport({ streamTransport: true, buffer: true }).sendMail(message);
  await mkdir(mailFolder, { recursive: true });
  const file = join(mailFolder, `${key}.eml`);
  await writeFile(`${file}.part`, text as Buffer);
  await rename(`${file}.part`, file);
}
