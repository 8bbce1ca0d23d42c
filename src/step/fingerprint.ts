import { createHash } from "node:crypto";
import { canonicalJson } from "./canonical.ts";
import { toTree } from "./value.ts";

/** Equal for equal values, whatever the order of their properties: SHA-256 of their canonical JSON, in hex. */
export function fingerprintOf(value: unknown): string {
  return createHash("sha256")
    .update(canonicalJson(toTree(value)))
    .digest("hex");
}
