import { OncewardError } from "../errors.ts";
import type { ConnectedSource } from "../handler/source.ts";
import type { Once } from "../once.ts";
import { Mortal, type Mishap } from "./mortal.ts";
import { describeProof } from "./report.ts";
import { compare, type Difference, findVolatile, type Snapshot } from "./snapshot.ts";
import { Stage } from "./stage.ts";

export interface ProveOptions<Tx = unknown> {
  /** Not started: what is enqueued is compared, and not run. Its database is one for tests, whose ledger is empty. */
  readonly once: Pick<Once<Tx>, "database" | "engine">;
  /** The source whose handler is to be proven. */
  readonly source: Pick<ConnectedSource<never, Tx>, "name" | "take">;
  /** The event: an object, or its body as text or bytes. It needs no signature. */
  readonly event: unknown;
  /** Other events that tell the same fact, and so must change nothing any more. */
  readonly twins?: readonly unknown[] | undefined;
  /**
   * The tables to compare, as they are written in SQL. Left out: all but the ledger's. Those that are empty at the
   * beginning are emptied before each trial.
   */
  readonly tables?: readonly string[] | undefined;
  /** Writes the rows that the handler needs, before each trial. */
  readonly arrange?: (() => unknown) | undefined;
  /** A list to which your stand-ins for the world outside append what they are asked to do, such as mails. */
  readonly outside?: readonly unknown[] | undefined;
  /** Also runs the event once more by a replay, which is somebody's own wish; effect keys must hold then. */
  readonly replay?: boolean | undefined;
}

export interface Trial {
  readonly name: string;
  readonly outcome: "holds" | "differs";
  /** How the database differs from one clean delivery. */
  readonly differences: readonly Difference[];
  /** Why the event was not done in the end. */
  readonly unfinished?: string | undefined;
  /** What such a difference comes from, as a rule. */
  readonly hint?: string | undefined;
}

export interface Proof {
  readonly outcome: "proven" | "refuted";
  readonly trials: readonly Trial[];
  /** All of it as text, for people. */
  readonly report: string;
}

/** How often the sender tries again at the most. A handler that is not done then never will be. */
const deliveries = 4;
/** A storm of duplicates. */
const storm = 10;

const mishaps: readonly { readonly mishap: Mishap; readonly name: string }[] = [
  { mishap: "dies before the commit", name: "the process dies before the commit" },
  { mishap: "dies after the commit", name: "the process dies after the commit, before it answers" },
  { mishap: "fails before the commit", name: "the attempt fails after all was written" },
  { mishap: "stalls before it begins", name: "the process stalls past its lease, and another takes over" },
];

/**
 * Proves that a handler takes effect once. It delivers an event to it under all that can go wrong, and compares
 * what stands in the database afterwards with what one clean delivery leaves there.
 *
 * @example
 * const proof = await proveHandler({ once, source: billing, event: { id: "evt_1", type: "invoice.paid", … } });
 * assert.equal(proof.outcome, "proven", proof.report);
 */
export async function proveHandler<Tx>(options: ProveOptions<Tx>): Promise<Proof> {
  if (options.once.engine.worker.started) {
    throw new OncewardError(
      "config_invalid",
      "Prove handlers before start(): a worker would run what is compared.",
    );
  }
  const stage = await Stage.open(options);
  const trials: Trial[] = [];
  const clean = await deliverCleanly(stage);
  const { unfinished, usedLate } = clean;
  if (unfinished || usedLate) {
    const hint = usedLate ? lateHint : undefined;
    trials.push({ name: cleanName, outcome: "differs", differences: [], unfinished, hint });
  } else {
    const judge = await learn(stage, clean.snapshot, trials);
    for (const { name, play } of plan(stage, options, clean.transactions)) {
      await stage.reset();
      await play();
      trials.push(judge(name, await stage.look(), await stage.unfinished()));
    }
  }
  await stage.empty();
  const outcome = trials.every((trial) => trial.outcome === "holds") ? "proven" : "refuted";
  return { outcome, trials, report: describeProof(stage.name, trials) };
}

const cleanName = "delivered once";
const lateHint =
  "It used `tx` after it had returned, when its transaction was over: that was refused. Await all that it does.";

async function deliverCleanly<Tx>(stage: Stage<Tx>): Promise<{
  snapshot: Snapshot;
  transactions: number;
  unfinished: string | undefined;
  usedLate: boolean;
}> {
  await stage.reset();
  const mortal = new Mortal(stage.database);
  await mortal.during(() => stage.deliver());
  const snapshot = await stage.look();
  return {
    snapshot,
    transactions: mortal.transactions,
    unfinished: await stage.unfinished(),
    usedLate: mortal.usedLate,
  };
}

/** A second clean delivery shows what cannot be compared, such as times. Returns what judges all others. */
async function learn<Tx>(
  stage: Stage<Tx>,
  first: Snapshot,
  trials: Trial[],
): Promise<(name: string, snapshot: Snapshot, unfinished: string | undefined) => Trial> {
  await stage.reset();
  await stage.advanceSequences();
  await stage.deliver();
  const second = await stage.look();
  const volatile = findVolatile(first, second);
  const judge = (name: string, snapshot: Snapshot, unfinished: string | undefined): Trial => {
    const differences = compare(first, snapshot, volatile);
    const outcome = differences.length === 0 && !unfinished ? "holds" : "differs";
    return { name, outcome, differences, unfinished, hint: hintOf(name, differences) };
  };
  trials.push(judge(cleanName, second, await stage.unfinished()));
  return judge;
}

interface Played {
  readonly name: string;
  play(): Promise<void>;
}

function plan<Tx>(stage: Stage<Tx>, options: ProveOptions<Tx>, transactions: number): Played[] {
  const again = async (times: number): Promise<void> => {
    for (let i = 0; i < times; i++) await stage.deliver();
  };
  const nth = (name: string, at: number): string =>
    transactions > 1 ? `${name} (transaction ${at} of ${transactions})` : name;
  return [
    { name: "delivered three times", play: () => again(3) },
    {
      name: `delivered ${storm} times at once`,
      play: async () => void (await Promise.all(Array.from({ length: storm }, () => stage.deliver()))),
    },
    ...mishaps.flatMap(({ mishap, name }) =>
      Array.from({ length: transactions }, (_, i) => ({
        name: nth(name, i + 1),
        async play() {
          const mortal = new Mortal(stage.database, { mishap, at: i + 1 }, () => stage.takeOver());
          await mortal.during(() => stage.deliver());
          await stage.redeliver(deliveries);
        },
      })),
    ),
    ...(options.twins ?? []).map((twin, i) => ({
      name: `followed by another event of the same fact (twin ${i + 1})`,
      async play() {
        await stage.deliver();
        await stage.deliver(twin);
      },
    })),
    ...(options.replay ? [{ name: "replayed by hand", play: () => stage.replay() }] : []),
  ];
}

function hintOf(name: string, differences: readonly Difference[]): string | undefined {
  const extra = differences.filter((difference) => difference.extra.length > 0);
  if (extra.some(({ table }) => table === "outside")) {
    return "A handler that calls the world outside calls it again in its next attempt: enqueue a job for that.";
  }
  if (extra.length > 0 && (name.includes("twin") || name.includes("replayed"))) {
    return "Take an effect key of the thing itself first: if (!(await once(`credit:${invoice.id}`))) return.";
  }
  if (extra.length > 0) {
    return "What is written through `tx` vanishes with its attempt. Is something written through another connection, or not awaited?";
  }
  if (differences.length > 0) {
    return "The attempt that counted did less than a first one does. Does something besides the database remember the first?";
  }
  return undefined;
}
