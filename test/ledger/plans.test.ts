/** The cost of a verb follows what it works on: not the history, not the backlog, nor what the planner once believed. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { pgDatabase } from "../../src/database/pg.ts";
import type { Database } from "../../src/database/database.ts";
import { migrate } from "../../src/ledger/migrate.ts";
import { Verbs } from "../../src/ledger/verbs.ts";
import { describeWith } from "../support/postgres.ts";
import { type Report, watchedSession, type WatchedSession } from "./plans.ts";
import { minute, urlOf } from "./support.ts";

const lease = { leaseMs: minute, worker: "w" };
const max = 10;

/** Only indexes, and of those no more rows than a few for each task that was asked for. */
function expectProbes({ scans, sorted }: Report, most: number): void {
  expect(scans.length).toBeGreaterThan(0);
  expect(scans.filter(({ how }) => !/^Index (Only )?Scan/.test(how))).toEqual([]);
  expect(scans.filter(({ rows }) => rows > most)).toEqual([]);
  expect(sorted).toBeLessThanOrEqual(most);
}

for (const which of ["newest", "oldest"] as const) {
  const history = which === "newest" ? 1_000_000 : 200_000;

  describeWith(which, `plans (${which} Postgres)`, (fresh) => {
    let database: Database;
    let session: WatchedSession;
    let verbs: Verbs;
    beforeAll(async () => {
      const url = urlOf(fresh);
      if (url === undefined) return;
      database = pgDatabase(url, { max: 2 });
      await migrate(database);
      // Nobody tells the planner what is in there: it has to be right with what it believes of an empty table.
      for (const table of ["task", "payload", "step", "log"]) {
        await database.query(`alter table onceward.${table} set (autovacuum_enabled = off)`);
      }
      session = await watchedSession(url);
      verbs = new Verbs(session, "onceward");
    });
    afterAll(async () => {
      await session?.end();
      await database?.close();
    });

    const insert = (state: "done" | "waiting", scope: string, from: number, to: number): Promise<unknown> =>
      database.query(
        `insert into onceward.task (created_at, due_at, finished_at, state, attempt, tries, scope, key)
         select now(), ${state === "done" ? "null, now()" : "now() - interval '1 hour' + i * interval '10 ms', null"},
           '${state}', ${state === "done" ? "1, 1" : "0, 0"}, '${scope}', 'evt_' || lpad(i::text, 9, '0')
         from generate_series(${from}, ${to - 1}) as i`,
      );

    /** Every verb of a run, once: all that a task goes through. */
    async function life(scope: string, key: string): Promise<void> {
      const task = { scope, key };
      const claims = ["a", "b", "c"].map((name) => ({ scope, key: `${key} ${name}`, attempt: 1 }));
      const [a, b, c] = claims as [(typeof claims)[0], (typeof claims)[0], (typeof claims)[0]];
      await verbs.record([
        task,
        { scope, key: `${key} grouped`, serial: key },
        { scope, key: `${key} slot`, serial: `${key}s`, slots: 2 },
      ]);
      await verbs.record(claims, lease);
      await verbs.record([task, ...claims], lease);
      await verbs.claim({ scope, key: `${key} grouped` }, lease);
      await verbs.claim({ scope, key: `${key} slot` }, lease);
      await verbs.renew(claims, minute);
      await verbs.saveSteps([{ ...a, name: "s", state: "done", value: "1" }]);
      await verbs.signal(a, { name: "go" });
      await verbs.complete([a, { scope, key: `${key} grouped`, attempt: 1 }]);
      await verbs.fail([{ ...b, reason: "x", retry: "backoff" }]);
      await verbs.defer(c, { signal: "go" });
      await verbs.look(a);
      await verbs.payload(a);
      await verbs.replay([a], { again: true });
      await verbs.cancel(a);
      await verbs.once(`${scope} ${key}`);
      await verbs.claimDue([scope], { max, ...lease });
      await verbs.claimDue([scope], {
        max,
        ...lease,
        limits: { [scope]: { running: 99, rate: { limit: 99, perMs: 1 } } },
      });
    }

    it("that were made on an empty table stay probes of indexes when rows have come", async () => {
      // Six times and more: then a session keeps one plan for all arguments.
      for (let i = 0; i < 8; i++) await life("empty", `${i}`);
      for (let i = 0; i < 8; i++) await verbs.claimDue(["empty", "lane"], { max, ...lease });
      await insert("done", "empty", 0, 100_000);
      await insert("waiting", "empty", 100_000, 200_000);
      expectProbes(await session.watch(() => life("empty", "now")), 100);
      expectProbes(await session.watch(() => verbs.claimDue(["empty"], { max, ...lease })), 2 * max);
    });

    it("of a new session, which knows no statistics either, are probes of indexes", async () => {
      const other = await watchedSession(urlOf(fresh)!);
      try {
        const due = () => new Verbs(other, "onceward").claimDue(["empty"], { max, ...lease });
        expectProbes(await other.watch(due), 2 * max);
      } finally {
        await other.end();
      }
    });

    it("cost the same after a long history as after a short one", async () => {
      const scope = "history";
      await insert("done", scope, 0, 1_000);
      const due = async (): Promise<Report> => {
        await verbs.record(Array.from({ length: 30 }, (_, i) => ({ scope, key: `${Math.random()} ${i}` })));
        const reports = [];
        for (let i = 0; i < 3; i++)
          reports.push(await session.watch(() => verbs.claimDue([scope], { max, ...lease })));
        for (const report of reports) expectProbes(report, 2 * max);
        return reports.toSorted((a, b) => a.blocks - b.blocks)[0]!;
      };
      const short = await due();
      await insert("done", scope, 1_000, history);
      const long = await due();
      // A level more of the tree for each probe, at most; a walk over the history would be ten thousand blocks.
      expect(long.blocks).toBeLessThan(short.blocks * 2 + 200);
      await database.query("analyze onceward.task");
      const known = await due();
      expect(known.blocks).toBeLessThan(short.blocks * 2 + 200);
    });

    it("cost the same before a long backlog as before a short one", async () => {
      const due = async (lane: string): Promise<Report> => {
        // The cheapest of a few: now and then a session has to read the catalogue anew, since others change theirs.
        const reports = [];
        for (let i = 0; i < 3; i++)
          reports.push(await session.watch(() => verbs.claimDue([lane], { max, ...lease })));
        for (const report of reports) expectProbes(report, 2 * max);
        return reports.toSorted((a, b) => a.blocks - b.blocks)[0]!;
      };
      await insert("waiting", "short", 0, 100);
      await insert("waiting", "short/a", 0, 100);
      await insert("waiting", "long", 0, 100_000);
      await insert("waiting", "long/a", 0, 100);
      const short = await due("short");
      const long = await due("long");
      expect(long.blocks).toBeLessThan(short.blocks * 2 + 200);
      // With nothing to claim but much that waits for later.
      await insert("waiting", "later", 1_000_000, 1_100_000);
      const later = await due("later");
      expect(later.blocks).toBeLessThan(short.blocks * 2 + 200);
    });

    it("cost the same at the end of a long line of a group as of a short one", async () => {
      const step = async (length: number, slots: number | undefined, round: number): Promise<Report> => {
        const scope = `line-${length}-${slots}-${round}`;
        const last = { scope, key: `${length}` };
        await verbs.record(["0", "1"].map((key) => ({ scope, key, serial: "g", slots })));
        for (const key of ["0", "1"]) await verbs.claim({ scope, key }, lease);
        await database.query(
          `insert into onceward.task (created_at, due_at, state, scope, key, serial, slots, behind)
           select now(), now() + interval '1 hour', 'waiting', $1::text, i::text, 'g', ($2::text)::smallint, '0'
           from generate_series(2, ($3::text)::integer) as i`,
          [scope, slots === undefined ? null : `${slots}`, `${length - 1}`],
        );
        await verbs.record([{ ...last, serial: "g", slots }]);
        return session.watch(async () => {
          expect(await verbs.claim(last, lease)).toMatchObject({ outcome: "waiting" });
          expect(await verbs.complete([{ scope, key: "0", attempt: 1 }])).toEqual(["done"]);
          expect((await verbs.claimDue([scope], { max, ...lease })).tasks).toHaveLength(1);
        });
      };
      for (const slots of [undefined, 2]) {
        const short = await step(20, slots, 1);
        // Whatever else the server does meanwhile, as reading its catalogs anew, is not in both.
        const long = [await step(20_000, slots, 1), await step(20_000, slots, 2)];
        for (const report of [short, ...long]) expectProbes(report, 2 * max);
        expect(Math.min(...long.map(({ blocks }) => blocks))).toBeLessThan(short.blocks * 2 + 200);
      }
    });

    it("to claim what is known cost the same for each of a large batch as of a small one", async () => {
      const unwatched = new Verbs(database, "onceward");
      const took = async (size: number): Promise<number> => {
        const tasks = Array.from({ length: size }, (_, i) => ({
          scope: "known",
          key: `${size} ${i}`,
          body: "x".repeat(1000),
        }));
        await unwatched.record(tasks);
        const start = performance.now();
        const answers = await unwatched.record(tasks, lease);
        const ms = performance.now() - start;
        expect(answers.filter(({ outcome }) => outcome === "claimed")).toHaveLength(size);
        return ms / size;
      };
      const small = await took(200);
      expect(await took(3_200)).toBeLessThan(small * 4); // and not 16 times as much
    });

    it("do not grow with tasks that were finished a moment ago and not yet vacuumed away", async () => {
      const scope = "churn";
      const round = async (): Promise<Report> => {
        await verbs.record(Array.from({ length: 100 }, (_, i) => ({ scope, key: `${Math.random()} ${i}` })));
        const report = await session.watch(async () => {
          const { tasks } = await verbs.claimDue([scope], { max: 100, ...lease });
          await verbs.complete(tasks);
        });
        return report;
      };
      const first = await round();
      for (let i = 0; i < 30; i++) await round();
      const last = [await round(), await round(), await round()].map(({ blocks }) => blocks);
      expect(Math.min(...last)).toBeLessThan(first.blocks * 2 + 200);
    });
  });
}
