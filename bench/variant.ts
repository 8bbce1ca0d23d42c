/** What is measured: a way to make an event or a job happen once, behind one small shape. */
import type { RequestListener } from "node:http";
import type { StripeEvent } from "./event.ts";

/**
 * - `receive`: an event is recorded, once; nobody runs it.
 * - `jobs`: what was recorded is run by an empty handler and ends as done.
 * - `handle`: the handler writes one row into `bench_order`, in the same transaction as the completion
 *   where the variant can do that.
 * - `steps`: the handler has three empty steps, each of which is kept.
 */
export type Mode = "receive" | "jobs" | "handle" | "steps";

export interface Setup {
  readonly mode: Mode;
  /** URL of this variant's own database; for an embedded one, its folder. */
  readonly database: string;
  readonly redis: string;
  /** To be called by the variant when it starts a handler, and when the handler has returned. */
  started(id: string): void;
  finished(id: string): void;
  /** What a handler waits for, besides its row: work that takes its time. Left out: nothing. */
  work?(id: string): Promise<unknown> | undefined;
}

export interface Running {
  /** Records it under its id, at most once; resolves when that is as durable as the store makes it. */
  enqueue(event: StripeEvent, bytes: string | Buffer): Promise<unknown>;
  /** Many at once, by the variant's own way for that; left out: one by one. */
  enqueueMany?(events: readonly StripeEvent[]): Promise<unknown>;
  /** What its users are told to call before a server listens; left out where there is nothing. */
  warmUp?(): Promise<unknown>;
  /** Begins to run what is recorded; left out where `enqueue` runs it itself. */
  start?(): Promise<unknown>;
  /** How many are recorded and not done, as the store knows it. */
  unfinished(): Promise<number>;
  /** A whole HTTP endpoint of its own, instead of the plain one before `enqueue`. */
  readonly listener?: RequestListener;
  close(): Promise<unknown>;
}

export interface Variant {
  /** As in the tables. */
  readonly title: string;
  readonly kind: "onceward" | "peer" | "naive" | "limit";
  readonly store: "postgres" | "redis" | "pglite" | "none";
  readonly modes: readonly Mode[];
  /** How it was set up and what it promises, in a sentence or two, for the report. */
  readonly notes: string;
  /** The package whose version, size and import are told. */
  readonly package?: string;
  /** Events of a backlog that it drains in a few seconds. */
  readonly backlog?: number;
  /** Why it cannot run here; undefined where it can. */
  missing?(): string | undefined;
  /** Imports it, so that opening it is measured alone. */
  load?(): Promise<unknown>;
  /** Makes its tables in a new database. */
  prepare?(setup: Pick<Setup, "database" | "redis">): Promise<void>;
  /** Puts finished and waiting (not yet due) ones into the ledger. */
  seed?(database: string, rows: { finished: number; waiting: number }): Promise<void>;
  open(setup: Setup): Promise<Running>;
}
