import type { JobTools, Moving, Once } from "onceward";

export interface Letter {
  readonly customer: string;
  readonly letter: "welcome" | "social proof" | "first dollar";
}

/** Sends a letter. `key` is the same however often a letter is tried: make it the Message-ID. */
export type Send = (letter: Letter, key: string) => Promise<unknown>;

/**
 * A drip: three letters to a new customer, each once, in order, two and then three days apart.
 *
 * A move and the task of its letter are one commit: no crash leaves one without the other. The letter itself
 * goes out in a job, which is tried until it is sent. The letters of one customer are a serial group, so
 * that one which keeps failing holds back the next instead of being overtaken.
 */
export function drip(once: Pick<Once, "job" | "machine">, send: Send) {
  const mail = once.job(
    "drip-mail",
    { serial: ({ customer }) => customer },
    async ({ input, step }: JobTools<Letter>) => {
      await step("send", async ({ key }) => void (await send(input, key)));
    },
  );

  const letter =
    (name: Letter["letter"]) =>
    ({ subject, enqueue }: Moving): Promise<unknown> =>
      enqueue(mail, { customer: subject, letter: name });

  return once.machine("drip", {
    initial: "new",
    states: {
      new: {},
      welcomed: { after: { "2 days": "convince" } },
      convinced: { after: { "3 days": "encourage" } },
      finished: {},
      stopped: {},
    },
    moves: {
      welcome: { from: ["new"], to: "welcomed", run: letter("welcome") },
      convince: { from: ["welcomed"], to: "convinced", run: letter("social proof") },
      encourage: { from: ["convinced"], to: "finished", run: letter("first dollar") },
      /** Unsubscribed, also before the first letter. */
      stop: { from: ["new", "welcomed", "convinced"], to: "stopped" },
    },
  });
}
