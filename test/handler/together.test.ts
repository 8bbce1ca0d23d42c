import { expect, it } from "vitest";
import type { PgClient } from "../../src/database/pg.ts";
import { Fatal, OncewardError } from "../../src/errors.ts";
import type { HandledEvent } from "../../src/handler/handler.ts";
import { defineJob } from "../../src/job/define.ts";
import { dryRun } from "../../src/recover/dry-run/dry-run.ts";
import type { Engine } from "../../src/worker/engine.ts";
import { describeWith } from "../support/postgres.ts";
import { gate, Watcher } from "../worker/support.ts";
import { type App, type AppOptions, effect, event, openApps, type StripeEvent } from "./support.ts";

const type = "invoice.paid";

describeWith("newest", "handlers of several events", (database) => {
  const open = openApps(database);

  type Work = (sent: readonly HandledEvent<StripeEvent>[], tx: PgClient) => unknown;

  /**
   * Delivers one event whose handler waits, and then others, of which the handler gets those that came meanwhile at
   * once: by the numbers of its calls.
   */
  async function deliverTogether(
    app: App,
    sent: readonly StripeEvent[],
    work: Work,
    together = 10,
  ): Promise<string[][]> {
    const calls: string[][] = [];
    const isBusy = gate();
    const held = gate();
    app.billing.on(type, { together }, async ({ events, tx }) => {
      const ids = events.map((one) => one.event.id);
      calls.push(ids);
      if (calls.length === 1) {
        isBusy.open();
        return held.promise;
      }
      for (const id of ids) await effect(tx, id);
      await work(events as unknown as HandledEvent<StripeEvent>[], tx);
    });
    await app.engine.start();
    const first = event(type);
    await app.deliver(first);
    await isBusy.promise;
    for (const one of sent) expect(await app.deliver(one)).toMatchObject({ status: 200 });
    held.open();
    for (const one of [first, ...sent]) await app.settled(one.id);
    expect(calls[0]).toEqual([first.id]);
    return calls.slice(1);
  }

  /** A place for one transaction, so that all who come while it is taken wait for it. */
  const onePlace: AppOptions = { connections: 3 };
  const some = (count: number): StripeEvent[] => Array.from({ length: count }, () => event(type));
  const idsOf = (events: readonly StripeEvent[]): string[] => events.map(({ id }) => id);

  it("are called once for all that came meanwhile, in one transaction with their completions", async () => {
    const app = await open(onePlace);
    const sent = some(5);
    const seen: unknown[] = [];
    const calls = await deliverTogether(app, sent, async (events) => {
      for (const { scope, key, attempt } of events)
        seen.push([attempt, await app.stateOf(scope, key), await app.effectsOf(key)]);
    });
    expect(calls).toEqual([idsOf(sent)]);
    expect(seen).toEqual(sent.map(() => [1, "running", []]));
    for (const { id } of sent) {
      expect(await app.stateOf("stripe", id)).toBe("done");
      expect(await app.effectsOf(id)).toEqual(["done"]);
    }
    const { rows } = await app.engine.database.query(
      "select count(distinct xmin::text)::text as commits from effect where event = any ($1::text::text[])",
      [`{${idsOf(sent).join(",")}}`],
    );
    expect(rows).toEqual([{ commits: "1" }]);
  });

  it("take no more of them than they asked for", async () => {
    const app = await open({ ...onePlace, source: { concurrency: 20 } });
    const sent = some(7);
    const calls = await deliverTogether(app, sent, () => undefined, 4);
    expect(calls).toEqual([idsOf(sent.slice(0, 4)), idsOf(sent.slice(4))]);
  });

  it("enqueue and take effect keys for each event", async () => {
    const app = await open(onePlace);
    const mail = defineJob(app.engine, "mail-of-several", () => undefined);
    const sent = some(3);
    const taken: boolean[] = [];
    await deliverTogether(app, sent, async (events) => {
      for (const { event: one, enqueue, once } of events) {
        taken.push(await once(`of ${one.id}`), await once(`of all since ${sent[0]!.id}`));
        await enqueue(mail, undefined, { key: one.id });
      }
    });
    expect(taken).toEqual([true, true, true, false, true, false]);
    for (const { id } of sent) {
      await app.settled(id);
      expect(await app.look("job/mail-of-several", id)).toMatchObject({
        state: "done",
        cause: `stripe ${id}`,
      });
    }
  });

  it("give each event an attempt of its own where they fail, so that none fails by the fault of another", async () => {
    const app = await open(onePlace);
    const sent = some(3);
    const bad = sent[1]!.id;
    const calls = await deliverTogether(app, sent, (events) => {
      if (events.some((one) => one.event.id === bad)) throw new Fatal("this one can never succeed");
    });
    expect(calls[0]).toEqual(idsOf(sent));
    expect(calls.slice(1).toSorted()).toEqual(sent.map(({ id }) => [id]).toSorted());
    for (const { id } of sent) {
      expect(await app.effectsOf(id)).toEqual(id === bad ? [] : ["done"]);
      expect(await app.look("stripe", id)).toMatchObject(
        // What was given back has used up no try.
        id === bad
          ? { state: "dead", reason: "this one can never succeed", attempt: 2, tries: 1 }
          : { state: "done", attempt: 2, tries: 1 },
      );
    }
  });

  it("do nothing of what they did together where the claim of one is lost", async () => {
    const app = await open(onePlace);
    const sent = some(3);
    const stolen = sent[1]!.id;
    const calls = await deliverTogether(app, sent, async (events) => {
      if (events.length === 1) return;
      // As where it was paused for longer than the lease.
      const early = { leaseMs: 60_000, worker: "another", early: true };
      await app.engine.database.query(
        "update onceward.task set due_at = onceward.now() - interval '1 second' where key = $1",
        [stolen],
      );
      const claimed = await app.engine.ledger.verbs.claim({ scope: "stripe", key: stolen }, early);
      expect(claimed).toMatchObject({ outcome: "claimed", attempt: 2 });
      await app.engine.ledger.complete({ scope: "stripe", key: stolen, attempt: 2 });
    });
    expect(calls[0]).toEqual(idsOf(sent));
    for (const { id } of sent) {
      expect(await app.effectsOf(id)).toEqual(id === stolen ? [] : ["done"]);
      expect(await app.look("stripe", id)).toMatchObject({ state: "done", attempt: 2 });
    }
  });

  it("fail as one where the database is away, which none of them can help", async () => {
    const app = await open(onePlace);
    const sent = some(2);
    let away = true;
    const calls = await deliverTogether(app, sent, () => {
      if (!away) return;
      away = false;
      throw new OncewardError("database_unavailable", "the database is away");
    });
    expect(calls[0]).toEqual(idsOf(sent));
    for (const { id } of sent)
      expect(await app.look("stripe", id)).toMatchObject({ state: "done", tries: 2 });
  });

  it("are no matter of all where a key is busy, or a sender's API away, for one", async () => {
    const app = await open(onePlace);
    const sent = some(2);
    const [busy] = idsOf(sent);
    let count = 0;
    const calls = await deliverTogether(app, sent, (events) => {
      if (events.some((one) => one.event.id === busy) && ++count <= 2)
        throw new OncewardError("key_busy", "somebody's transaction holds this key");
    });
    expect(calls[0]).toEqual(idsOf(sent));
    for (const { id } of sent)
      expect(await app.look("stripe", id)).toMatchObject({ state: "done", tries: id === busy ? 2 : 1 });
  });

  it("undo all of it where they swallow a SQL error", async () => {
    const app = await open(onePlace);
    const sent = some(2);
    const calls = await deliverTogether(app, sent, async (events, tx) => {
      if (events.length > 1) await tx.query("select * from no_such_table").catch(() => undefined);
    });
    expect(calls[0]).toEqual(idsOf(sent));
    for (const { id } of sent) expect(await app.effectsOf(id)).toEqual(["done"]);
  });

  it("do not count against an event's deadline how long it waited for the others", async () => {
    const app = await open(onePlace);
    const late = new Watcher();
    let failed = 0;
    app.engine.worker.tellRan = (_task, ran) => {
      if (ran.outcome === "failed") failed++;
      late.tell();
    };
    const clock = defineJob(
      app.engine,
      "clock",
      { deadline: 2_000, maxAttempts: 1 },
      () => new Promise(() => undefined),
    );
    const held = gate();
    const calls: [string[], number][] = [];
    app.billing.on(type, { together: 10, deadline: 2_000 }, async ({ events }) => {
      calls.push([events.map((one) => one.event.id), events[0]!.attempt]);
      if (calls.length === 1) await held.promise;
    });
    await app.engine.start();
    const [first, second] = some(2);
    await app.deliver(first!);
    await app.deliver(second!);
    await app.engine.offer(await clock.task(undefined, { key: second!.id }));
    // The first one's deadline has passed, and after the second had come that of the clock.
    await late.until(() => failed === 2);
    held.open();
    await app.settled(second!.id);
    expect(calls[1]).toEqual([[second!.id], 1]);
    await app.settled(first!.id);
  });

  it("get a sender's event alone where he waits for it, and what was begun before", async () => {
    const app = await open({ source: { answer: "inline" } });
    const calls: string[][] = [];
    app.billing.on(type, { together: 10 }, async ({ events, tx }) => {
      calls.push(events.map((one) => one.event.id));
      await effect(tx, events[0]!.event.id);
      if (events[0]!.attempt === 1) throw new Error("the first time");
    });
    const sent = some(2);
    const answers = await Promise.all(sent.map((one) => app.deliver(one)));
    expect(answers.map(({ outcome }) => outcome)).toEqual(["handler_failed", "handler_failed"]);
    await app.engine.start();
    for (const { id } of sent) await app.settled(id);
    // Not what an earlier test has left waiting.
    const ours = calls.filter((ids) => sent.some(({ id }) => ids.includes(id)));
    expect(ours.map((ids) => ids.length)).toEqual([1, 1, 1, 1]);
    for (const { id } of sent) expect(await app.effectsOf(id)).toEqual(["done"]);
  });

  it("keep nothing of a dry run", async () => {
    const app = await open({ source: { worker: "elsewhere" } });
    app.billing.on(type, { together: 10 }, ({ events, tx }) => effect(tx, events[0]!.event.id));
    const sent = event(type);
    expect(await app.deliver(sent)).toMatchObject({ outcome: "accepted" });
    const task = { scope: "stripe", key: sent.id };
    const report = await dryRun(app.engine as Engine, task, { limit: "60 seconds" });
    expect(report).toMatchObject({ outcome: "done", tables: [{ table: "public.effect" }] });
    expect(await app.effectsOf(sent.id)).toEqual([]);
    expect(await app.look("stripe", sent.id)).toMatchObject({ state: "waiting", attempt: 0 });
  });

  it("are refused where they ask for what cannot be", async () => {
    const { billing } = await open();
    for (const together of [0, 1.5, -1, 1001, Number.NaN]) {
      expect(() => billing.on(type, { together }, () => undefined)).toThrow(/whole number from 1 to 1000/);
    }
    const applyIfNewer = { id: () => "a", object: () => 1, refetch: "none" } as const;
    const both = { together: 2, applyIfNewer } as unknown as { together: 2 };
    expect(() => billing.on(type, both, () => undefined)).toThrow(/does not go with together/);
  });
});
