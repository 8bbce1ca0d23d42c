/**
 * Timers, clocks and randomness as the code of explored processes finds them. Whoever else runs meanwhile (the
 * real driver, the test runner) keeps the real ones.
 */
import { AsyncLocalStorage } from "node:async_hooks";
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
      return Object.assign(
        time.setTimer(owner, ms, () => fn(...args)),
        handle,
      );
    },
    setInterval(fn: Callback, ms = 0, ...args: unknown[]) {
      const owner = time.running;
      if (!owner) return setInterval(fn, ms, ...args);
      return Object.assign(
        time.setTimer(owner, ms, () => fn(...args), Math.max(1, ms)),
        handle,
      );
    },
    setImmediate(fn: Callback, ...args: unknown[]) {
      const owner = time.running;
      return owner ? time.addImmediate(owner, () => fn(...args)) : setImmediate(fn, ...args);
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
  const followContext = leaveOutContext();
  // Errors are part of most schedules, and where they come from is looked at by nobody; it takes long to find out.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;

  return () => {
    followContext();
    Error.stackTraceLimit = stackTraceLimit;
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

/**
 * Async context is not followed here: that makes promises several times as slow, and what depends on it (a step
 * within a step, a dry run) is not explored. Returns the way back.
 */
function leaveOutContext(): () => void {
  const { run } = AsyncLocalStorage.prototype;
  const { snapshot } = AsyncLocalStorage;
  AsyncLocalStorage.prototype.run = ((_: unknown, fn: (...args: unknown[]) => unknown, ...args: unknown[]) =>
    fn(...args)) as typeof run;
  AsyncLocalStorage.snapshot =
    () =>
    (fn, ...args) =>
      fn(...args);
  return () => {
    AsyncLocalStorage.prototype.run = run;
    AsyncLocalStorage.snapshot = snapshot;
  };
}
