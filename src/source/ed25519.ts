import { createPublicKey, verify, type KeyObject } from "node:crypto";

export const PUBLIC_KEY_BYTES = 32;
export const SIGNATURE_BYTES = 64;

export function ed25519Key(raw: Buffer): KeyObject {
  return createPublicKey({
    key: { kty: "OKP", crv: "Ed25519", x: raw.toString("base64url") },
    format: "jwk",
  });
}

export interface Ed25519Check {
  readonly keys: readonly KeyObject[];
  /** What the sender signs in front of the body. */
  readonly prefix: string;
  readonly body: Uint8Array;
  /** Unlike an HMAC, every pair of key and signature costs a verification (0.1 ms): the caller keeps this short. */
  readonly candidates: readonly Uint8Array[];
}

export function ed25519Matches({ keys, prefix, body, candidates }: Ed25519Check): boolean {
  if (candidates.length === 0) return false;
  const message = Buffer.concat([Buffer.from(prefix, "utf8"), body]);
  return keys.some((key) => candidates.some((candidate) => verify(null, message, key, candidate)));
}
