/** Is this database fit for a ledger, and is the ledger whole? */
import type { Examination } from "./examination.ts";
import { type Finding, Findings } from "./finding.ts";
import { grantsFor } from "./refusal.ts";

/** Below it nothing is tested. */
const oldestVersion = 150_000;
/** Leases last a minute, signatures five: a second does no harm, half a minute makes both unreliable. */
const [noticeableSkewMs, harmfulSkewMs] = [2_000, 30_000];
/** A transaction that stays open keeps every row that was changed since from being cleaned up. */
const longTransactionMs = 5 * 60_000;
/** Of a table's rows; below so many rows nobody notices. */
const [deadShare, deadRows] = [0.3, 10_000];

export interface DatabaseFacts extends Examination {
  /** How far this machine's clock is ahead of the database's. */
  readonly skewMs: number;
  /** The embedded one, where a power cut is nobody's concern. */
  readonly embedded: boolean;
  /** Who asks, and for which schema. */
  readonly role: string;
  readonly schema: string;
}

export function judgeDatabase(facts: DatabaseFacts): Finding[] {
  const about = new Findings("database");
  const { version, settings, skewMs, embedded } = facts;
  if (version < oldestVersion)
    about.wrong(
      "version_old",
      `This is Postgres ${Math.floor(version / 10_000)}; the ledger is tested on 15 and newer.`,
      "Upgrade the server.",
    );
  if (facts.encoding !== "UTF8")
    about.wrong(
      "encoding",
      `The database is encoded in ${facts.encoding}, which cannot keep every payload.`,
      "Make a database with: create database … encoding 'UTF8' template template0",
    );
  if (facts.read_only)
    about.wrong(
      "read_only",
      "Nothing can be written here: it is a standby, or read-only by default.",
      "Connect to the primary; check default_transaction_read_only and the host of the URL.",
    );
  const isolation = settings["default_transaction_isolation"] ?? "read committed";
  if (isolation !== "read committed")
    about.wrong(
      "isolation",
      `Transactions are ${isolation} by default: a claim does not see what others have just committed, so that more than ` +
        "a limit allows can run at once, and statements that meet fail with 40001.",
      "alter database … set default_transaction_isolation = 'read committed'; the same for the role, if it is set there. " +
        "Where your application needs the other, let it begin its own transactions so.",
    );
  judgeClock(about, skewMs, facts.ledger_ahead_ms);
  judgeDurability(about, facts, embedded);
  judgeUpkeep(about, facts);
  const room = Number(settings["max_connections"] ?? 0) - facts.connections;
  if (room < 5 && !embedded)
    about.advice(
      "connections",
      `${facts.connections} of ${settings["max_connections"]} connections are used.`,
      "Lower the pools of your processes, put a pooler in front, or raise max_connections.",
    );
  return [...about.all, ...judgeLedger(facts)];
}

function judgeClock(about: Findings, skewMs: number, aheadMs: number): void {
  const off = Math.abs(skewMs);
  const seconds = (off / 1000).toFixed(1);
  const [what, todo] = [
    `This machine's clock is ${seconds} s ${skewMs > 0 ? "ahead of" : "behind"} the database's.`,
    "Let both machines follow NTP: signatures are checked by this one, leases kept by the other.",
  ];
  if (off > harmfulSkewMs) about.wrong("clock_skew", what, todo);
  else if (off > noticeableSkewMs) about.advice("clock_skew", what, todo);
  if (Math.abs(aheadMs) > 1_000)
    about.wrong(
      "clock_replaced",
      "The ledger's clock, onceward.now(), is not the database's: somebody has replaced it, as tests do.",
      "Put it back: create or replace function onceward.now() … as 'select clock_timestamp()'.",
    );
}

function judgeDurability(about: Findings, { settings, standbys }: DatabaseFacts, embedded: boolean): void {
  if (embedded) {
    about.advice(
      "embedded",
      "The embedded database survives the death of its process, not a power cut.",
      "For production give createOnce a Postgres: database: process.env.DATABASE_URL.",
    );
    return;
  }
  for (const name of ["fsync", "full_page_writes"]) {
    if (settings[name] === "off")
      about.wrong(
        name,
        `${name} is off: a power cut can destroy the database.`,
        `Set ${name} = on, and reload.`,
      );
  }
  const commit = settings["synchronous_commit"];
  if (commit === "off")
    about.wrong(
      "synchronous_commit",
      "synchronous_commit is off: an event that was answered with 200 can be lost in a crash.",
      "Set synchronous_commit = on for this database or role.",
    );
  const synchronous = (settings["synchronous_standby_names"] ?? "") !== "";
  if (synchronous && (commit === "local" || commit === "off"))
    about.wrong(
      "replication_not_awaited",
      `There is a synchronous standby, and synchronous_commit = ${commit} does not wait for it.`,
      "Set synchronous_commit = on (or remote_apply).",
    );
  if (standbys > 0 && !synchronous)
    about.advice(
      "replication_asynchronous",
      "The standby is asynchronous: a failover loses what was acknowledged in the last moments.",
      "Name a standby in synchronous_standby_names, or plan to run `onceward backfill stripe` after a failover.",
    );
}

function judgeUpkeep(
  about: Findings,
  { settings, tables, oldest_transaction_ms: oldest }: DatabaseFacts,
): void {
  for (const name of ["autovacuum", "track_counts"]) {
    if (settings[name] === "off")
      about.wrong(
        "autovacuum",
        `${name} is off: the ledger becomes slower with every task.`,
        `Set ${name} = on.`,
      );
  }
  for (const { name, live, dead, autovacuum } of tables) {
    if (!autovacuum)
      about.wrong(
        "autovacuum",
        `autovacuum is off for the table ${name}: it becomes slower with every task.`,
        `alter table onceward.${name} reset (autovacuum_enabled)`,
      );
    if (dead > deadRows && dead > (live + dead) * deadShare)
      about.advice(
        "bloat",
        `${dead} of ${live + dead} rows of ${name} are dead and not cleaned up.`,
        `vacuum onceward.${name}; if they stay, end what keeps old transactions open (pg_stat_activity, replication slots).`,
      );
  }
  if (oldest !== null && oldest > longTransactionMs)
    about.advice(
      "long_transaction",
      `A transaction has been open for ${Math.round(oldest / 60_000)} minutes; meanwhile no dead row can be cleaned up.`,
      "Find it: select pid, state, xact_start from pg_stat_activity order by xact_start; end it with pg_terminate_backend(pid).",
    );
}

function judgeLedger(facts: DatabaseFacts): Finding[] {
  const { missing, denied, open_to_public: open } = facts;
  const about = new Findings("ledger");
  if (missing.length > 0)
    about.wrong(
      "schema_incomplete",
      `Missing, or an invalid index: ${listed(missing)}.`,
      "Restore it from `onceward sql`; an invalid index is mended by reindex.",
    );
  if (denied.length > 0)
    about.wrong(
      "privileges",
      `This role may not ${listed(denied)}.`,
      `As the owner: ${grantsFor(facts.schema, facts.role)}`,
    );
  if (open.length > 0)
    about.wrong(
      "public",
      `Everybody may use ${listed(open)}; on a hosted Postgres that can include anonymous web clients.`,
      "revoke all on all routines in schema onceward from public; the same for tables.",
    );
  return about.all;
}

function listed(names: readonly string[]): string {
  return names.length <= 6
    ? names.join(", ")
    : `${names.slice(0, 5).join(", ")} and ${names.length - 5} more`;
}
