import { loadPg } from "../database/driver.ts";
import { type Finding, Findings } from "./finding.ts";

/** How long to wait for a connection. */
const connectionTimeoutMs = 10_000;

export type PoolerMode = "none" | "session" | "transaction";

/**
 * Whether a pooler stands before the database. Postgres tells each session its process id when it begins, and a
 * pooler makes one up: where it is not the id of who answers, there is one. Where two connections that are open at
 * once are answered by the same process, sessions are shared: transaction (or statement) mode.
 */
export async function poolerMode(url: string): Promise<PoolerMode> {
  const { Client } = (await loadPg()) as unknown as { Client: new (options: object) => ProbeClient };
  const clients = [0, 1].map(
    () => new Client({ connectionString: url, connectionTimeoutMillis: connectionTimeoutMs }),
  );
  for (const client of clients) client.on("error", () => undefined);
  try {
    const pids: number[] = [];
    for (const client of clients) {
      await client.connect();
      // One after the other: a pooler hands the session that has just become idle to the next one.
      const { rows } = await client.query("select pg_backend_pid() as pid");
      pids.push(rows[0]?.pid ?? 0);
    }
    if (pids[0] === pids[1]) return "transaction";
    return clients.some((client, i) => client.processID !== pids[i]) ? "session" : "none";
  } finally {
    await Promise.all(clients.map((client) => client.end().catch(() => undefined)));
  }
}

interface ProbeClient {
  readonly processID: number;
  connect(): Promise<void>;
  query(text: string): Promise<{ rows: { pid: number }[] }>;
  on(event: "error", listener: () => void): void;
  end(): Promise<void>;
}

export function judgePooler(mode: PoolerMode): Finding[] {
  const about = new Findings("pooler");
  if (mode === "transaction")
    about.advice(
      "pooler_transaction",
      "A pooler in transaction mode stands before the database. The ledger works through it, but LISTEN is silent, so that work of other processes is found by polling.",
      "Give a direct connection for LISTEN: pgDatabase(url, { listen: directUrl }). With postgres.js set `prepare: false`.",
    );
  return about.all;
}
