/** What a fault is: it sets a stage, and strikes on it while senders send. */
import type { PostgresServer } from "../support/postgres-server.ts";
import type { Random } from "./random.ts";
import type { Stage } from "./stage.ts";

/** How large a run is. */
export interface Size {
  readonly servers: number;
  readonly workers: number;
  readonly senders: number;
  /** Pause of each sender between two events. */
  readonly paceMs: number;
  /** How many events are acknowledged between two strikes, at most. */
  readonly between: number;
  /** How many connections one strike cuts. */
  readonly cuts: number;
  readonly leaseMs: number;
  /** Whether Postgres waits for the disk. */
  readonly fsync: boolean;
}

/** The short form that `npm test` runs, and the one of `npm run faults`. */
export const sizes = {
  short: {
    servers: 1,
    workers: 1,
    senders: 4,
    paceMs: 100,
    between: 12,
    cuts: 3,
    leaseMs: 2_000,
    fsync: false,
  },
  full: {
    servers: 2,
    workers: 2,
    senders: 16,
    paceMs: 5,
    between: 400,
    cuts: 20,
    leaseMs: 2_000,
    fsync: true,
  },
} as const satisfies Record<string, Size>;

export interface FaultOptions {
  readonly size: Size;
  readonly random: Random;
  /** A server that faults share. Whoever kills it starts it again; who breaks it for good takes one of their own. */
  readonly postgres: PostgresServer;
}

export interface Fault {
  readonly name: string;
  /** What is done to what, in a few words. */
  readonly what: string;
  /** Rejects with Unavailable where this machine cannot do it. */
  open(options: FaultOptions): Promise<Scene & { close(): Promise<void> }>;
}

/** A fault that is ready to strike. */
export interface Scene {
  readonly stage: Stage;
  /** Does it once. Calls `over` when the fault is over and recovery begins; else that is when it resolves. */
  strike(over: () => void): Promise<void>;
}

/** Builds a scene. What was told to `later` is undone in reverse order by `close`, or at once if building fails. */
export async function scene(
  build: (later: (undo: () => unknown) => void) => Promise<Scene>,
): Promise<Scene & { close(): Promise<void> }> {
  const undos: (() => unknown)[] = [];
  const close = async (): Promise<void> => {
    const failed: unknown[] = [];
    for (const undo of undos.splice(0).toReversed()) {
      try {
        await undo();
      } catch (error) {
        failed.push(error);
      }
    }
    if (failed.length > 0) throw failed[0];
  };
  try {
    return { ...(await build((undo) => undos.push(undo))), close };
  } catch (error) {
    await close().catch(() => undefined);
    throw error;
  }
}
