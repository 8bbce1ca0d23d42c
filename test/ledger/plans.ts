/** A session that reports the plan of every statement it runs, those inside functions included (auto_explain). */
import pg from "pg";
import type { Queryable } from "../../src/database/database.ts";
import { asQueryable } from "../../src/database/queryable.ts";

interface Node {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly "Rows Removed by Index Recheck"?: number;
  readonly "Shared Hit Blocks"?: number;
  readonly "Shared Read Blocks"?: number;
  readonly Plans?: readonly Node[];
}

interface Planned {
  readonly plan: Node;
  readonly text: string;
}

/** What a statement did, with all that it called. */
export interface Report {
  /** Blocks of tables and indexes that were looked at. */
  readonly blocks: number;
  /** Each scan of a table of the ledger: how, of what, and how many rows it read. */
  readonly scans: readonly {
    readonly how: string;
    readonly of: string;
    readonly rows: number;
    readonly in: string;
  }[];
  /** The most rows that any step but a scan handled: a sort, a hash, a materialized list. */
  readonly sorted: number;
}

export interface WatchedSession extends Queryable {
  /** Runs the work and reports its statements. */
  watch(work: () => Promise<unknown>): Promise<Report>;
  end(): Promise<void>;
}

export async function watchedSession(url: string): Promise<WatchedSession> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  let plans: Planned[] = [];
  client.on("notice", ({ message }) => {
    const start = message?.indexOf("{") ?? -1;
    if (!message?.startsWith("duration:") || start < 0) return;
    const { Plan: plan, "Query Text": text } = JSON.parse(message.slice(start)) as {
      Plan: Node;
      "Query Text": string;
    };
    plans.push({ plan, text });
  });
  await client.query("load 'auto_explain'");
  for (const [name, value] of Object.entries({
    log_min_duration: "0",
    log_analyze: "on",
    log_buffers: "on",
    log_timing: "off",
    log_nested_statements: "on",
    log_format: "json",
    log_level: "log",
  })) {
    await client.query(`set auto_explain.${name} = '${value}'`);
  }
  await client.query("set client_min_messages = log");
  return {
    ...asQueryable(client),
    async watch(work) {
      plans = [];
      await work();
      return report(plans);
    },
    end: () => client.end(),
  };
}

const tables = new Set(["task", "payload", "result", "step", "signal", "effect", "log", "rate", "machine"]);

function report(planned: readonly Planned[]): Report {
  const plans = planned.map(({ plan }) => plan);
  const nodes = plans.flatMap(all);
  const scans = planned.flatMap(({ plan, text }) =>
    all(plan)
      .filter((node) => tables.has(node["Relation Name"] ?? "") && node["Node Type"].includes("Scan"))
      .map((node) => ({
        how: node["Node Type"],
        of: node["Index Name"] ?? node["Relation Name"]!,
        rows: rowsRead(node),
        in: text,
      })),
  );
  const sorts = nodes.filter((node) => /Sort|Hash|Materialize/.test(node["Node Type"]));
  return {
    // A function's plan includes what it called.
    blocks: Math.max(
      0,
      ...plans.map((plan) => (plan["Shared Hit Blocks"] ?? 0) + (plan["Shared Read Blocks"] ?? 0)),
    ),
    scans,
    sorted: Math.max(0, ...sorts.map(rowsRead)),
  };
}

function all(node: Node): Node[] {
  return [node, ...(node.Plans ?? []).flatMap(all)];
}

function rowsRead(node: Node): number {
  const removed = (node["Rows Removed by Filter"] ?? 0) + (node["Rows Removed by Index Recheck"] ?? 0);
  return Math.round((node["Actual Rows"] + removed) * node["Actual Loops"]);
}
