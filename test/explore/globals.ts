/**
 * Timers, clocks and randomness as the code of explored processes finds them. Whoever else runs meanwhile (the
 * real driver, the test runner) keeps the real ones.
 */
import { AsyncResource } from "node:async_hooks";
import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import type { VirtualTime } from "./virtual-time.ts";

type Callback = (...args: unknown[]) => void;

/** Replaces the globals until the returned function is called. */
export function replaceGlobals(time: VirtualTime): () => void {
  const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, Date: RealDate } = globalThis;
  const { random } = Math;
  const { randomBytes } = crypto;
  const steady = performance.now.bind(performance);

  const clear = (cancel: (timer: never) => void) => (timer: unknown) => {
    if (!time.clearTimer(timer)) cancel(timer as never);
  };
  class VirtualDate extends RealDate {
    constructor(...args: [] | [number | string | Date]) {
      if (args.length === 0) super(VirtualDate.now());
      else super(...args);
    }
    static override now(): number {
      return time.running ? time.now : RealDate.now();
    }
  }
  Object.assign(globalThis, {
    setTimeout(fn: Callback, ms = 0, ...args: unknown[]) {
      const owner = time.running;
      if (!owner) return setTimeout(fn, ms, ...args);
      return Object.assign(time.setTimer(owner, ms, inContext(fn, args)), handle);
    },
    setInterval(fn: Callback, ms = 0, ...args: unknown[]) {
      const owner = time.running;
      if (!owner) return setInterval(fn, ms, ...args);
      return Object.assign(time.setTimer(owner, ms, inContext(fn, args), Math.max(1, ms)), handle);
    },
    setImmediate(fn: Callback, ...args: unknown[]) {
      const owner = time.running;
      return owner ? time.addImmediate(owner, inContext(fn, args)) : setImmediate(fn, ...args);
    },
    clearTimeout: clear(clearTimeout),
    clearInterval: clear(clearInterval),
    Date: VirtualDate,
  });
  performance.now = () => (time.running ? time.elapsed : steady());
  // The same in every schedule: chance is not what is explored here.
  Math.random = () => (time.running ? 0.5 : random());
  crypto.randomBytes = ((size: number) =>
    time.running ? Buffer.alloc(size) : randomBytes(size)) as typeof randomBytes;
  syncBuiltinESMExports();

  return () => {
    Object.assign(globalThis, {
      setTimeout,
      setInterval,
      setImmediate,
      clearTimeout,
      clearInterval,
      Date: RealDate,
    });
    Reflect.deleteProperty(performance, "now");
    Math.random = random;
    crypto.randomBytes = randomBytes;
    syncBuiltinESMExports();
  };
}

/** What code does with a Node timer besides clearing it. */
const handle = {
  ref: () => handle,
  unref: () => handle,
  hasRef: () => false,
};

/** Async context goes along, as with Node's own timers. AsyncResource.bind does the same, and more, in ten times the time. */
function inContext(fn: Callback, args: unknown[]): () => void {
  const resource = new AsyncResource("Timer");
  return () => resource.runInAsyncScope(fn, undefined, ...args);
}
