import type { Variant } from "../variant.ts";
import { absurd } from "./absurd.ts";
import { bullmq, bullmqPostgres } from "./bullmq.ts";
import { dbos } from "./dbos.ts";
import { graphile, graphileBatching } from "./graphile-worker.ts";
import * as limits from "./limits.ts";
import * as naive from "./naive.ts";
import { embeddedNaive } from "./embedded-naive.ts";
import { embedded, inline, onceward, together } from "./onceward.ts";
import { ledger } from "./onceward-ledger.ts";
import { pgBoss } from "./pg-boss.ts";

/** Everything that is measured. Peers are imported only where they are opened. */
export const variants = {
  http: limits.http,
  endpoint: limits.endpoint,
  insert: limits.insert,
  insertMany: limits.insertMany,
  copy: limits.copy,
  onceward,
  together,
  inline,
  ledger,
  naiveSelect: naive.naiveSelect,
  naiveCatch: naive.naiveCatch,
  naiveTransaction: naive.naiveTransaction,
  pgBoss,
  graphile,
  graphileBatching,
  dbos,
  absurd,
  bullmq,
  bullmqPostgres,
  embedded,
  embeddedNaive,
} satisfies Record<string, Variant>;

export type VariantName = keyof typeof variants;
