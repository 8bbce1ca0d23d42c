import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "./fail.ts";

/** Where everything of a development machine is kept: the embedded database, mails, the signing secret. */
export const folder = "./.onceward";

const secretFile = join(folder, "stripe-webhook-secret");

/** Not 3000, 8080 or 5432, which are taken on every developer's machine. */
const defaultPort = 4400;

export interface ServeSettings {
  readonly port: number;
  readonly host: string;
}

export function serveSettings(given: {
  port?: string | undefined;
  host?: string | undefined;
}): ServeSettings {
  const text = given.port ?? process.env["PORT"] ?? String(defaultPort);
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65_535)
    throw new Failure(`PORT is a number from 0 to 65535, not "${text}".`);
  return { port, host: given.host ?? process.env["HOST"] ?? "127.0.0.1" };
}

/**
 * In development, a signing secret for Stripe where none is set: made once and kept, so that `storm`,
 * `trigger` and the server agree. Returns it where it was not set by the user.
 */
export function developmentSecret(): string | undefined {
  if (process.env["STRIPE_WEBHOOK_SECRET"] || process.env["NODE_ENV"] === "production") return undefined;
  mkdirSync(folder, { recursive: true });
  try {
    // Two processes at once: the first one writes, the second one reads.
    writeFileSync(secretFile, `whsec_${randomBytes(24).toString("base64url")}\n`, {
      flag: "wx",
      mode: 0o600,
    });
  } catch (error) {
    if ((error as { code?: unknown }).code !== "EEXIST") throw error;
  }
  const secret = readFileSync(secretFile, "utf8").trim();
  process.env["STRIPE_WEBHOOK_SECRET"] = secret;
  return secret;
}
