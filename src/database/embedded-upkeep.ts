/**
 * What a Postgres server does in background processes, which the embedded one has not: without it the log of
 * changes grows until the next start (280 MB in a minute of heavy writing, all of it read again after a crash), and
 * finished tasks leave dead rows behind that slow every claim down.
 */

/** Often enough that both stay small, rare enough to cost nothing. In ms. */
const INTERVAL_MS = 60_000;

/** A checkpoint when there is more to read again after a crash than takes about a second. In bytes. */
const MAX_LOG = 64 * 1024 * 1024;

/** As autovacuum's defaults: a fifth of the table, and not for the sake of a few rows. */
const DUE = `
  select format('%I.%I', schemaname, relname) as table from pg_stat_user_tables
  where n_dead_tup > 50 + 0.2 * n_live_tup or n_mod_since_analyze > 50 + 0.1 * n_live_tup`;

interface Session {
  query(text: string): Promise<{ rows: unknown[] }>;
  exec(script: string): Promise<unknown>;
}

/** Until the returned function is called. */
export function keepUp(db: Session, intervalMs = INTERVAL_MS): () => void {
  let busy = false;
  const timer = setInterval(() => {
    if (busy) return;
    busy = true;
    upkeep(db)
      .catch(() => {}) // Closed meanwhile, or again in a minute.
      .finally(() => (busy = false));
  }, intervalMs);
  timer.unref();
  return () => clearInterval(timer);
}

/** One round, each statement on its own: VACUUM and CHECKPOINT run in no transaction. */
export async function upkeep(db: Session): Promise<void> {
  const { rows } = await db.query(DUE);
  for (const { table } of rows as { table: string }[]) await db.exec(`vacuum (analyze) ${table}`);
  const { rows: log } = await db.query(
    `select pg_wal_lsn_diff(pg_current_wal_lsn(), redo_lsn) > ${MAX_LOG} as due from pg_control_checkpoint()`,
  );
  if ((log as { due: boolean }[])[0]?.due) await db.exec("checkpoint");
}
