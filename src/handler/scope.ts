/**
 * The scopes of a source's tasks. One source has one lane, its name; everything below is its own.
 *
 *   stripe                  live, or a sender without modes
 *   stripe/test             test mode
 *   stripe/acct_1           an account's, live
 *   stripe/acct_1/test
 *   stripe/…/#mail          one of several handlers of an event, in the event's scope
 *   stripe/…/!conflict      a known id that came again with other content
 *
 * Each scope has one reading: an account's own text never holds a "/" nor looks like one of the other parts.
 */
import { createHash } from "node:crypto";

/** A scope holds 255 bytes: 63 for the source, 128 for the account, the rest for the parts below. */
const maxAccount = 128;
const maxHandler = 46;

export function eventScope(
  source: string,
  account: string | undefined,
  livemode: boolean | undefined,
): string {
  const base = account === undefined ? source : `${source}/${accountSegment(account)}`;
  return livemode === false ? `${base}/test` : base;
}

/** An account as the part of a scope that names it. */
export function accountSegment(account: string): string {
  return segment(account, maxAccount);
}

export function handlerScope(scope: string, handler: string): string {
  return `${scope}/#${segment(handler, maxHandler)}`;
}

export function conflictScope(scope: string): string {
  return `${scope}/!conflict`;
}

/** The handler that a scope belongs to, as `handlerSegment` writes it; undefined for an event's own scope. */
export function handlerOfScope(scope: string): string | undefined {
  const at = scope.lastIndexOf("/#");
  return at < 0 ? undefined : scope.slice(at + 2);
}

export function handlerSegment(handler: string): string {
  return segment(handler, maxHandler);
}

/** Text as one part of a scope. What does not fit becomes its hash, since accounts must stay apart. */
function segment(text: string, max: number): string {
  if (/^[\w.:@-]+$/.test(text) && text.length <= max && text !== "test") return text;
  const escaped = text.replaceAll(
    /[%/]|^[~#!]|^test$/g,
    (part) => `%${part.charCodeAt(0).toString(16)}${part.slice(1)}`,
  );
  if (/^[\x21-\x7e]+$/.test(escaped) && escaped.length <= max) return escaped;
  return `~${createHash("sha256").update(text).digest("hex").slice(0, 40)}`;
}
