import { expect, it, vi } from "vitest";
import type { PgClient } from "../../src/database/pg.ts";
import { Fatal } from "../../src/errors.ts";
import { connectSource } from "../../src/handler/source.ts";
import { defineJob } from "../../src/job/define.ts";
import { signed } from "../../src/source/generic.ts";
import { stripe } from "../../src/source/stripe.ts";
import { describeWith } from "../support/postgres.ts";
import { gate } from "../worker/support.ts";
import { type App, effect, event, openApps, SECRET } from "./support.ts";

describeWith("newest", "handlers", (database) => {
  const open = openApps(database);
  const inline = { source: { answer: "inline" } } as const;

  it("writes, enqueues, takes effect keys and completes in one commit", async () => {
    const app = await open(inline);
    const mail = defineJob(app.engine, "mail", ({ input }: { input: { to: string } }) => input.to);
    let seenBeforeCommit: unknown;
    app.billing.on("invoice.paid", async ({ event: { id }, tx, enqueue, once, key, scope, attempt }) => {
      expect(await once(`order:${id}`)).toBe(true);
      expect(await once(`order:${id}`)).toBe(false);
      await effect(tx, id);
      expect(await enqueue(mail, { to: id }, { key: id })).toEqual({
        outcome: "enqueued",
        scope: "job/mail",
        key: id,
      });
      expect(await enqueue(mail, { to: id }, { key: id })).toMatchObject({ outcome: "duplicate" });
      expect({ key, scope, attempt }).toEqual({ key: id, scope: "stripe", attempt: 1 });
      seenBeforeCommit = [
        await app.effectsOf(id),
        await app.stateOf("job/mail", id),
        await app.stateOf("stripe", id),
      ];
    });
    const sent = event("invoice.paid");
    expect(await app.deliver(sent)).toMatchObject({ status: 200, outcome: "done" });
    expect(seenBeforeCommit).toEqual([[], undefined, "running"]);
    expect(await app.effectsOf(sent.id)).toEqual(["done"]);
    expect(await app.look("job/mail", sent.id)).toMatchObject({
      state: "waiting",
      cause: `stripe ${sent.id}`,
    });
    expect(await app.stateOf("stripe", sent.id)).toBe("done");
  });

  it("has what it enqueued run after the commit, also a job that is known by its name alone", async () => {
    const app = await open({ pollMs: 600_000 });
    const ran: string[] = [];
    let done: (() => void) | undefined;
    const bothRan = new Promise<void>((resolve) => (done = resolve));
    const note = async ({ input, key }: { input: string; key: string }) => {
      ran.push(`${key.split(":")[0]} after ${await app.stateOf("stripe", input)}`);
      if (ran.length === 2) done?.();
    };
    const known = defineJob(app.engine, "known", note);
    defineJob(app.engine, "named", note);
    app.billing.on("invoice.paid", async ({ event: { id }, enqueue }) => {
      await enqueue(known, id, { key: `a:${id}` });
      await enqueue({ name: "named" }, id, { key: `b:${id}` });
    });
    await app.engine.start();
    await app.deliver(event("invoice.paid"));
    await bothRan;
    expect(ran.toSorted()).toEqual(["a after done", "b after done"]);
  });

  it("undoes all of it when the handler fails, and keeps the reason", async () => {
    const app = await open(inline);
    const mail = defineJob(app.engine, "mail-of-failed", ({ input }: { input: string }) => input);
    app.billing.on("invoice.paid", async ({ event: { id }, tx, enqueue, once, attempt }) => {
      await effect(tx, id);
      await enqueue(mail, id, { key: id });
      expect(await once(`failing:${id}`)).toBe(true);
      if (attempt === 1) throw new Error("the ledger keeps this");
    });
    const sent = event("invoice.paid");
    expect(await app.deliver(sent)).toMatchObject({ status: 500, outcome: "handler_failed" });
    expect(await app.effectsOf(sent.id)).toEqual([]);
    expect(await app.stateOf("job/mail-of-failed", sent.id)).toBeUndefined();
    expect(await app.look("stripe", sent.id)).toMatchObject({
      state: "waiting",
      reason: "the ledger keeps this",
    });
  });

  it.each([
    ["no text as its message", { message: Object.create(null) as unknown }, "Error"],
    ["no message", { message: "" }, "Error"],
    ["no text at all", { message: 7, name: null }, "an Error without a message was thrown"],
  ])("fails by an error that has %s, and says so plainly", async (_, odd, reason) => {
    const app = await open(inline);
    app.billing.on("invoice.paid", () => {
      throw Object.assign(new Error("it failed"), odd);
    });
    const sent = event("invoice.paid");
    expect(await app.deliver(sent)).toMatchObject({ status: 500, outcome: "handler_failed" });
    expect(await app.look("stripe", sent.id)).toMatchObject({ state: "waiting", reason });
  });

  it("fails the attempt when the handler swallows a SQL error, instead of losing what it wrote", async () => {
    const app = await open(inline);
    app.billing.on("invoice.paid", async ({ event: { id }, tx }) => {
      await effect(tx, id);
      await tx.query("select * from no_such_table").catch(() => undefined);
    });
    const sent = event("invoice.paid");
    expect(await app.deliver(sent)).toMatchObject({ status: 500 });
    expect(await app.effectsOf(sent.id)).toEqual([]);
    const known = await app.look("stripe", sent.id);
    expect(known).toMatchObject({ state: "waiting" });
    expect(known?.["reason"]).toMatch(/swallowed/);
  });

  it("is dead at once after Fatal, and says why", async () => {
    const app = await open(inline);
    app.billing.on("invoice.paid", () => {
      throw new Fatal("no such plan");
    });
    const sent = event("invoice.paid");
    expect(await app.deliver(sent)).toMatchObject({ status: 500 });
    expect(await app.look("stripe", sent.id)).toMatchObject({ state: "dead", reason: "no such plan" });
  });

  it("is dead after its attempts, each of which waits for its backoff", async () => {
    const ran: string[] = [];
    const app = await open({ onRan: (_task, { outcome }) => void ran.push(outcome) });
    app.billing.on("invoice.paid", { maxAttempts: 3, backoff: { baseMs: 1, capMs: 1 } }, () => {
      throw new Error("again");
    });
    await app.engine.start();
    const sent = event("invoice.paid");
    expect(await app.deliver(sent)).toMatchObject({ status: 200, outcome: "accepted" });
    await app.settled(sent.id);
    expect(await app.look("stripe", sent.id)).toMatchObject({
      state: "dead",
      reason: "again",
      tries: 3,
      attempt: 3,
    });
    expect(ran).toEqual(["failed", "failed", "failed"]);
  });

  it("fails an attempt that takes longer than its deadline, and nothing that it wrote counts", async () => {
    const app = await open(inline);
    let ended: Promise<void> | undefined;
    app.billing.on("invoice.paid", { deadline: 30 }, ({ event: { id }, tx, signal, attempt }) => {
      ended = (async () => {
        await effect(tx, id, `attempt ${attempt}`);
        // The deadline may have passed before, on a slow machine.
        if (attempt > 1 || signal.aborted) return;
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      })();
      return ended;
    });
    const sent = event("invoice.paid");
    expect(await app.deliver(sent)).toMatchObject({ status: 500 });
    await ended?.catch(() => undefined); // Its connection is taken away, also in the middle of a statement.
    expect(await app.look("stripe", sent.id)).toMatchObject({ state: "waiting", attempt: 1 });
    expect(await app.effectsOf(sent.id)).toEqual([]);
  });

  // Otherwise it is given up only when the rollback has had no answer for half a minute.
  it(
    "takes a connection away whose attempt's deadline passes in a statement",
    { timeout: 20_000 },
    async () => {
      const app = await open(inline);
      let statement: Promise<unknown> | undefined;
      app.billing.on("invoice.paid", { deadline: 300 }, async ({ event: { id }, tx, signal }) => {
        await effect(tx, id);
        statement = tx.query("select pg_sleep(600)");
        statement.catch(() => undefined);
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
      });
      const sent = event("invoice.paid");
      expect(await app.deliver(sent)).toMatchObject({ status: 500 });
      await expect(statement).rejects.toThrow(/terminated/);
      expect(await app.effectsOf(sent.id)).toEqual([]);
    },
  );

  it("undoes what a run wrote after another attempt took its task over", async () => {
    const app = await open(inline);
    app.billing.on("invoice.paid", async ({ event: { id }, tx }) => {
      await effect(tx, id);
      // As when the process stood still until the lease was over.
      await app.engine.ledger.verbs.cancel({ scope: "stripe", key: id }, { reason: "taken over" });
    });
    const sent = event("invoice.paid");
    expect(await app.deliver(sent)).toMatchObject({ status: 409 });
    expect(await app.effectsOf(sent.id)).toEqual([]);
    expect(await app.stateOf("stripe", sent.id)).toBe("cancelled");
  });

  it("commits what its handler enqueued and did not await, and fails where that fails", async () => {
    const app = await open(inline);
    const mail = defineJob(app.engine, "unawaited", ({ input }: { input: { to: string } }) => input.to);
    app.billing.on("invoice.paid", ({ event: { id }, enqueue, once }) => {
      void enqueue(mail, { to: id }, { key: id });
      void once(`unawaited:${id}`);
    });
    app.billing.on("invoice.voided", ({ event: { id }, enqueue }) => {
      void enqueue(mail, { to: id }, { key: id, delay: "whenever" });
    });
    const [paid, voided] = [event("invoice.paid"), event("invoice.voided")];
    expect(await app.deliver(paid)).toMatchObject({ status: 200, outcome: "done" });
    expect(await app.stateOf("job/unawaited", paid.id)).toBe("waiting");
    expect(await app.engine.ledger.verbs.once(`unawaited:${paid.id}`)).toBe(false);
    expect(await app.deliver(voided)).toMatchObject({ status: 500, outcome: "handler_failed" });
    expect(await app.stateOf("job/unawaited", voided.id)).toBeUndefined();
  });

  it("refuses tools that are used after the handler has ended", async () => {
    const app = await open(inline);
    const late: Promise<unknown>[] = [];
    const go: (() => void)[] = [];
    app.billing.on("invoice.paid", ({ event: { id }, enqueue, once }) => {
      const goOn = (): Promise<void> => new Promise((resolve) => go.push(resolve));
      late.push(
        goOn()
          .then(() => enqueue({ name: "late" }, id, { key: id }))
          .catch((error: unknown) => error),
        goOn()
          .then(() => once(id))
          .catch((error: unknown) => error),
      );
    });
    const sent = event("invoice.paid");
    expect(await app.deliver(sent)).toMatchObject({ status: 200 });
    for (const on of go) on();
    for (const error of await Promise.all(late)) expect(error).toMatchObject({ code: "config_invalid" });
    expect(await app.stateOf("job/late", sent.id)).toBeUndefined();
  });

  it("that never ends leaves its place to others once its deadline has passed", async () => {
    const app = await open({ ...inline, connections: 3 });
    let hangs = true;
    app.billing.on("invoice.paid", { deadline: 200 }, async ({ event: { id }, tx }) => {
      await effect(tx, id);
      if (hangs) await new Promise(() => {});
    });
    expect(await app.deliver(event("invoice.paid"))).toMatchObject({ outcome: "handler_failed" });
    hangs = false;
    const sent = event("invoice.paid");
    expect(await app.deliver(sent)).toMatchObject({ outcome: "done" });
    expect(await app.effectsOf(sent.id)).toEqual(["done"]);
  });

  it("has its whole deadline for itself, however long it stood in line", async () => {
    const app = await open({ connections: 3 });
    const other = connectSource(
      app.engine,
      signed({
        name: "other",
        secrets: "secret",
        signature: { header: "x-signature" },
        id: ({ body }) => body["id"],
        type: () => "thing",
      }),
    );
    const reached = gate();
    const goOn = gate();
    app.billing.on("invoice.paid", async () => {
      reached.open();
      await goOn.promise;
    });
    let called = 0;
    other.on("thing", { deadline: 300 }, () => void called++);
    await app.engine.start();
    await app.deliver(event("invoice.paid"));
    await reached.promise;
    const taken = await other.take(Buffer.from(JSON.stringify({ id: "t_1", type: "thing" })));
    expect(taken.outcome).toBe("accepted");
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(await app.look("other", "t_1")).toMatchObject({ state: "running", attempt: 1 });
    goOn.open();
    await app.settled("t_1");
    expect(await app.look("other", "t_1")).toMatchObject({ state: "done", attempt: 1 });
    expect(called).toBe(1);
  });

  it("gives an event to every handler that its type matches, each with an outcome of its own", async () => {
    let broken = true;
    const openOne = async (): Promise<App> => {
      const one = await open(inline);
      one.billing
        .on("invoice.paid", { name: "credit" }, ({ event: { id }, tx }) => effect(tx, id, "credit"))
        .on("invoice.*", async ({ event: { id }, tx }) => {
          await effect(tx, id, "all invoices");
          if (broken) throw new Error("the report is down");
        })
        .on("customer.*", ({ event: { id }, tx }) => effect(tx, id, "customer"));
      return one;
    };
    const app = await openOne();
    const sent = event("invoice.paid");
    expect(await app.deliver(sent)).toMatchObject({ status: 500, outcome: "handler_failed" });
    expect(await app.effectsOf(sent.id)).toEqual(["credit"]);
    expect(await app.stateOf("stripe", sent.id)).toBe("done");
    expect(await app.stateOf("stripe/#credit", sent.id)).toBe("done");
    expect(await app.look("stripe/#invoice.*", sent.id)).toMatchObject({
      state: "waiting",
      reason: "the report is down",
      cause: `stripe ${sent.id}`,
    });
    broken = false;
    const restarted = await openOne();
    expect(await restarted.deliver(sent)).toMatchObject({ status: 200, outcome: "done" });
    expect(await app.effectsOf(sent.id)).toEqual(["credit", "all invoices"]);
    expect(await restarted.deliver(sent)).toMatchObject({ status: 200, outcome: "duplicate" });
    expect(await app.effectsOf(sent.id)).toEqual(["credit", "all invoices"]);
  });

  it("runs several handlers by the worker too, and all of them again when somebody replays the event", async () => {
    const app = await open();
    app.billing
      .on("invoice.paid", { name: "one" }, ({ event: { id }, tx }) => effect(tx, id, "one"))
      .on("invoice.paid", { name: "two" }, ({ event: { id }, tx }) => effect(tx, id, "two"));
    await app.engine.start();
    const sent = event("invoice.paid");
    expect(await app.deliver(sent)).toMatchObject({ outcome: "accepted" });
    await app.settled(sent.id);
    expect((await app.effectsOf(sent.id)).toSorted()).toEqual(["one", "two"]);
    await app.engine.ledger.verbs.replay([{ scope: "stripe", key: sent.id }]);
    await app.settled(sent.id);
    expect(await app.effectsOf(sent.id)).toHaveLength(2);
    await app.engine.ledger.verbs.replay([{ scope: "stripe", key: sent.id }], { again: true });
    app.engine.worker.wake();
    await app.settled(sent.id);
    expect((await app.effectsOf(sent.id)).toSorted()).toEqual(["one", "one", "two", "two"]);
  });

  it("keeps an event that nobody handles, and runs it when a handler exists and somebody replays it", async () => {
    const before = await open(inline);
    before.billing.on("invoice.paid", () => undefined);
    const sent = event("customer.updated");
    expect(await before.deliver(sent)).toMatchObject({ status: 200, outcome: "ignored" });
    expect(await before.deliver(sent)).toMatchObject({ status: 200, outcome: "ignored" });
    expect(await before.look("stripe", sent.id)).toMatchObject({
      state: "ignored",
      reason: "no handler for this type",
    });

    const after = await open();
    after.billing.on("customer.updated", ({ event: { id }, tx }) => effect(tx, id));
    await after.engine.start();
    expect(await after.effectsOf(sent.id)).toEqual([]);
    expect(await after.engine.ledger.verbs.replay([{ scope: "stripe", key: sent.id }])).toEqual([
      { outcome: "replayed" },
    ]);
    after.engine.worker.wake();
    await after.settled(sent.id);
    expect(await after.effectsOf(sent.id)).toEqual(["done"]);
  });

  it.each(["inline", "queued"] as const)(
    "runs an ignored event when the sender sends it again to a handler (%s)",
    async (answer) => {
      const before = await open(inline);
      const sent = event("customer.updated");
      expect(await before.deliver(sent)).toMatchObject({ outcome: "ignored" });
      const after = await open({ source: { answer } });
      after.billing.on("customer.updated", ({ event: { id }, tx }) => effect(tx, id));
      if (answer === "queued") await after.engine.start();
      expect(await after.deliver(sent)).toMatchObject({ outcome: answer === "queued" ? "accepted" : "done" });
      await after.settled(sent.id);
      expect(await after.deliver(sent)).toMatchObject({ outcome: "duplicate" });
      expect(await after.effectsOf(sent.id)).toEqual(["done"]);
    },
  );

  it.each(["inline", "queued"] as const)(
    "runs an ignored event that is sent again to a handler after its payload was pruned (%s)",
    async (answer) => {
      const before = await open(inline);
      const sent = event("customer.updated");
      expect(await before.deliver(sent)).toMatchObject({ outcome: "ignored" });
      await before.engine.ledger.verbs.prune({ what: "payloads", olderThanMs: 0 });
      const after = await open({ source: { answer } });
      after.billing.on("customer.updated", ({ event: { id }, tx }) => effect(tx, id));
      if (answer === "queued") await after.engine.start();
      expect(await after.deliver(sent)).toMatchObject({ outcome: answer === "queued" ? "accepted" : "done" });
      await after.settled(sent.id);
      expect(await after.effectsOf(sent.id)).toEqual(["done"]);
    },
  );

  it("keeps the payload of an ignored event that is sent again after it was pruned, for a later replay", async () => {
    const before = await open(inline);
    const sent = event("customer.updated");
    await before.deliver(sent);
    const { verbs } = before.engine.ledger;
    await verbs.prune({ what: "payloads", olderThanMs: 0 });
    expect(await before.deliver(sent)).toMatchObject({ status: 200, outcome: "ignored" });
    expect(await verbs.payload({ scope: "stripe", key: sent.id })).toBe(JSON.stringify(sent));
    const after = await open();
    after.billing.on("customer.updated", ({ event: { id }, tx }) => effect(tx, id));
    await after.engine.start();
    await verbs.replay([{ scope: "stripe", key: sent.id }]);
    after.engine.worker.wake();
    await after.settled(sent.id);
    expect(await after.effectsOf(sent.id)).toEqual(["done"]);
  });

  it.each(["inline", "queued"] as const)(
    "says that an event is still ignored when it is sent again and its payload is pruned that moment (%s)",
    async (answer) => {
      const before = await open(inline);
      const sent = event("customer.updated");
      await before.deliver(sent);
      const after = await open({ source: { answer } });
      after.billing.on("customer.updated", ({ event: { id }, tx }) => effect(tx, id));
      if (answer === "queued") await after.engine.start();
      const { verbs } = after.engine.ledger;
      const replay = verbs.replay.bind(verbs);
      vi.spyOn(verbs, "replay").mockImplementation(async (...asked) => {
        await verbs.prune({ what: "payloads", olderThanMs: 0 });
        return replay(...asked);
      });
      expect(await after.deliver(sent)).toMatchObject({ status: 200, outcome: "ignored" });
      expect(await after.stateOf("stripe", sent.id)).toBe("ignored");
      expect(await after.effectsOf(sent.id)).toEqual([]);
    },
  );

  it.each(["done", "missing"] as const)(
    "asks the ledger once more when an ignored event is %s by the time it would be replayed",
    async (meanwhile) => {
      const before = await open(inline);
      const sent = event("customer.updated");
      await before.deliver(sent);
      const after = await open({ source: { answer: "queued" } });
      after.billing.on("customer.updated", ({ event: { id }, tx }) => effect(tx, id));
      await after.engine.start();
      const { verbs } = after.engine.ledger;
      const replay = verbs.replay.bind(verbs);
      vi.spyOn(verbs, "replay").mockImplementation(async (...asked) => {
        if (meanwhile === "done") {
          await replay(...asked);
          after.engine.worker.wake();
          await after.settled(sent.id);
        } else {
          await after.engine.database.query("delete from onceward.task where key = $1", [sent.id]);
          await after.engine.database.query("delete from onceward.payload where key = $1", [sent.id]);
        }
        return replay(...asked);
      });
      expect(await after.deliver(sent)).toMatchObject({
        outcome: meanwhile === "done" ? "duplicate" : "accepted",
      });
      await after.settled(sent.id);
      expect(await after.effectsOf(sent.id)).toEqual(["done"]);
    },
  );

  it("gives what nobody else handles to the fallback, and only that", async () => {
    const app = await open(inline);
    app.billing
      .on("invoice.paid", ({ event: { id }, tx }) => effect(tx, id, "own"))
      .fallback(({ event: { id }, tx }) => effect(tx, id, "fallback"));
    const own = event("invoice.paid");
    const other = event("customer.updated");
    await app.deliver(own);
    await app.deliver(other);
    expect([await app.effectsOf(own.id), await app.effectsOf(other.id)]).toEqual([["own"], ["fallback"]]);
  });

  it("fails what this process has no handler for, so that one which has it can take it", async () => {
    const app = await open({ source: { worker: "elsewhere" } });
    app.billing.on("invoice.paid", () => undefined);
    const sent = event("invoice.paid");
    expect(await app.deliver(sent)).toMatchObject({ outcome: "accepted" });
    const old = await open();
    await old.engine.start();
    await expect.poll(() => old.look("stripe", sent.id)).toMatchObject({ state: "waiting", tries: 1 });
    expect((await old.look("stripe", sent.id))?.["reason"]).toMatch(/no handler/);
  });

  it("parks a payload that cannot be read, with the reason", async () => {
    const app = await open();
    app.billing.on("invoice.paid", () => undefined);
    await app.engine.start();
    await app.engine.ledger.record({
      scope: "stripe",
      key: "evt_garbage",
      type: "invoice.paid",
      body: "{ no JSON",
    });
    app.engine.worker.wake();
    await app.settled("evt_garbage");
    expect(await app.look("stripe", "evt_garbage")).toMatchObject({
      state: "dead",
      reason: "stripe: the body is genuine, but is not JSON",
    });
  });

  it("closes registration with the first delivery", async () => {
    const app = await open(inline);
    app.billing.on("invoice.paid", () => undefined);
    await app.deliver(event("invoice.paid"));
    expect(() => app.billing.on("customer.updated", () => undefined)).toThrow(/after the first delivery/);
    expect(() => app.billing.fallback("ignore")).toThrow(/after the first delivery/);
  });

  it("never takes more connections for handlers than leaves some for the ledger, over all sources together", async () => {
    const app = await open();
    const others = connectSource(
      app.engine,
      signed({
        name: "acme",
        secrets: "secret",
        signature: { header: "x-signature" },
        id: ({ body }) => body["id"],
        type: () => "thing",
      }),
    );
    let running = 0;
    let most = 0;
    const busy = async (tx: PgClient) => {
      most = Math.max(most, ++running);
      await tx.query("select pg_sleep(0.1)");
      running--;
    };
    app.billing.on("invoice.paid", ({ tx }) => busy(tx));
    others.on("thing", ({ tx }) => busy(tx));
    await app.engine.start();
    const keys = Array.from({ length: 20 }, (_, i) => `connections-${i}`);
    await Promise.all(
      keys.flatMap((key) => [
        app.billing.take(Buffer.from(JSON.stringify({ ...event("invoice.paid"), id: key }))),
        others.take(Buffer.from(JSON.stringify({ id: key }))),
      ]),
    );
    for (const key of keys) await app.settled(key);
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(8);
  });

  it("refuses two handlers of one name, and patterns that mean nothing", async () => {
    const app = await open(inline);
    app.billing.on("invoice.paid", () => undefined);
    expect(() => app.billing.on("invoice.paid", () => undefined)).toThrow(/two handlers named invoice.paid/);
    expect(() => app.billing.on("invoice.*.failed*", () => undefined)).toThrow(/star at its end/);
    expect(() => app.billing.on("x*", { name: "a b" }, () => undefined)).toThrow(/visible ASCII/);
  });

  it.each([
    ["maxAttempts", { maxAttempts: 0 }],
    ["maxAttempts", { maxAttempts: 1.5 }],
    ["maxAttempts", { maxAttempts: 10_000 }],
    ["deadline", { deadline: "30 secs" }],
    ["deadline", { deadline: 0 }],
    ["deadline", { deadline: Number.NaN }],
    ["backoff.baseMs", { backoff: { baseMs: -5 } }],
    ["backoff.baseMs", { backoff: { baseMs: "1 second" as never } }],
    ["backoff.capMs", { backoff: { capMs: Number.NaN } }],
    ["backoff.capMs", { backoff: { capMs: Infinity } }],
  ])("refuses attempts that could not be made, when they are registered: %s, %j", async (what, options) => {
    const app = await open(inline);
    const refusal = (whose: string): object => ({
      code: "config_invalid",
      message: expect.stringContaining(`${whose}: ${what} is `) as unknown,
    });
    const another = stripe({ secrets: SECRET, name: "another" });
    expect(() => connectSource(app.engine, another, options)).toThrow(
      expect.objectContaining(refusal("another")),
    );
    expect(() => app.billing.on("invoice.*", { ...options, name: "mine" }, () => undefined)).toThrow(
      expect.objectContaining(refusal("stripe, handler mine")),
    );
    // Nothing of them is left behind.
    connectSource(app.engine, another, {
      maxAttempts: 1,
      deadline: "1 minute",
      backoff: { baseMs: 0, capMs: 0 },
    });
    app.billing.on("invoice.*", { name: "mine" }, () => undefined);
  });
});
