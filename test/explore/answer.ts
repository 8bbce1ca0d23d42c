/** How an answer comes to whoever waits for it. */
import type { Op, Process } from "./process.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** What becomes of the answer to something that was done: it arrives, it waits for a stopped process, or it is lost. */
export type Answering = "arrives" | "waits" | "lost";

/** The world around the processes. */
export const outside = { alive: true, paused: false };

export function give(time: VirtualTime, op: Op, answering: Answering, answer: () => void): void {
  if (answering === "lost" || (op.process && !op.process.alive)) return;
  if (answering === "waits" && op.process) holdBack(op.process, answer);
  else time.run(op.process ?? outside, answer);
}

/** Comes to a stopped process when it goes on. */
export function holdBack(process: Process, news: () => void): void {
  const { held } = process;
  process.held = () => {
    held?.();
    news();
  };
}
