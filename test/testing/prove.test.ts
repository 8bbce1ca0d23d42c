import { afterEach, describe, expect, it } from "vitest";
import { createOnce } from "../../src/once.ts";
import { stripe } from "../../src/source/stripe.ts";
import { proveHandler, type Proof, type ProveOptions } from "../../src/testing/index.ts";
import { SECRET } from "../handler/support.ts";
import { createPglite } from "../support/pglite.ts";
import { describeWith } from "../support/postgres.ts";
import { type App, credit, openApp, paid, type Paid, twin } from "./support.ts";

const differing = (proof: Proof): string[] =>
  proof.trials.filter(({ outcome }) => outcome === "differs").map(({ name }) => name);

describe("a proof on PGlite", () => {
  it("is given and refused as on a server", async () => {
    const db = await createPglite();
    await db.exec("create table entry (amount integer)");
    const once = createOnce({ database: db });
    const source = once.source(stripe({ secrets: SECRET }));
    const seen: string[] = [];
    source.on("invoice.paid", async ({ tx }) => void (await tx.query("insert into entry values (1)")));
    source.on("invoice.created", async ({ event, tx }) => {
      if (!seen.includes(event.id)) await tx.query("insert into entry values (1)");
      seen.push(event.id);
    });
    source.on("invoice.voided", { together: 10 }, async ({ events, tx }) => {
      await tx.query("insert into entry select 1 from unnest($1::text[])", [
        events.map(({ event }) => event.id),
      ]);
    });
    const arrange = () => void (seen.length = 0);
    expect((await proveHandler({ once, source, event: paid, arrange })).report).toContain(
      "all 7 trials hold",
    );
    const created = { ...paid, type: "invoice.created" };
    expect((await proveHandler({ once, source, event: created, arrange })).outcome).toBe("refuted");
    const voided = { ...paid, type: "invoice.voided" };
    expect((await proveHandler({ once, source, event: voided, arrange })).outcome).toBe("proven");
    await once.stop();
    await db.close();
  });
});

describeWith("newest", "a proof", (database) => {
  let app: App | undefined;
  afterEach(() => app?.once.stop());

  async function prove(
    handler: (handling: Paid, app: App) => unknown,
    options: Partial<ProveOptions> = {},
    register?: (app: App) => void,
  ): Promise<Proof> {
    app = await openApp(database().url, handler, register);
    const { once, source } = app;
    return proveHandler({ once, source, event: paid, ...options } as ProveOptions);
  }

  it("is given to a handler that writes through its transaction, with times, sequences and random ids in its rows", async () => {
    const proof = await prove(credit);
    expect(proof.report).toContain("stripe invoice.paid: all 7 trials hold");
    expect(proof).toMatchObject({ outcome: "proven" });
    expect(proof.trials.map(({ name }) => name)).toEqual([
      "delivered once",
      "delivered three times",
      "delivered 10 times at once",
      "the process dies before the commit",
      "the process dies after the commit, before it answers",
      "the attempt fails after all was written",
      "the process stalls past its lease, and another takes over",
    ]);
  });

  it("leaves the database empty, so that the next one can begin", async () => {
    await prove(credit);
    const { rows } = await app!.once.database.query(
      "select (select count(*) from credit)::int + (select count(*) from onceward.task)::int as n",
    );
    expect(rows).toEqual([{ n: 0 }]);
  });

  it("is given to a handler with jobs, effect keys and moves, also against twins and replays", async () => {
    let send: ReturnType<App["once"]["job"]> | undefined;
    let order: { move(subject: string, name: "pay", options: { tx: Paid["tx"] }): unknown } | undefined;
    const proof = await prove(
      async (handling) => {
        if (!(await handling.once("credit:in_1"))) return;
        await credit(handling);
        await handling.enqueue(send!, { invoice: "in_1" });
        await order!.move("in_1", "pay", { tx: handling.tx });
      },
      { twins: [twin], replay: true },
      ({ once }) => {
        send = once.job("send", () => {
          throw new Error("jobs are not run by a proof");
        });
        order = once.machine("order", {
          initial: "open",
          states: { open: {}, paid: { after: { "3 days": "close" } }, closed: {} },
          moves: { pay: { from: ["open"], to: "paid" }, close: { from: ["paid"], to: "closed" } },
        });
      },
    );
    expect(proof.report).toContain("all 9 trials hold");
  });

  it("is given to several handlers of one event, each in a transaction of its own", async () => {
    const proof = await prove(credit, {}, ({ source }) => {
      source.on("invoice.*", { name: "second" }, async ({ tx }) => {
        await tx.query("insert into entry (amount) values (1)");
      });
    });
    expect(proof.report).toContain("hold");
    expect(proof.trials.filter(({ name }) => name.includes("of 3"))).toHaveLength(12);
    expect(proof.outcome).toBe("proven");
  });

  it("is given to handlers that a worker would run", async () => {
    const proof = await prove(
      () => {},
      { event: { ...paid, type: "invoice.created" } },
      ({ source }) => {
        source.on(
          "invoice.created",
          { answer: "queued", serialBy: ({ data }) => data.object.id },
          async ({ tx }) => {
            await tx.query("insert into entry (amount) values (1)");
          },
        );
      },
    );
    expect(proof.report).toContain("hold");
    expect(proof.outcome).toBe("proven");
  });

  it("is refused to a handler that writes through another connection", async () => {
    const proof = await prove(async (_, { once }) => {
      await once.database.query("insert into entry (amount) values (5)");
    });
    expect(differing(proof)).toEqual([
      "the process dies before the commit",
      "the attempt fails after all was written",
      "the process stalls past its lease, and another takes over",
    ]);
    expect(proof.report).toContain("public.entry: 1 too many");
    expect(proof.report).toContain("+ amount: 5");
    expect(proof.report).toContain("another connection");
  });

  it("is refused to a handler that remembers in memory what it has done", async () => {
    const seen = new Set<string>();
    const proof = await prove(
      async (handling) => {
        if (seen.has(handling.event.id)) return;
        seen.add(handling.event.id);
        await credit(handling);
      },
      { arrange: () => seen.clear() },
    );
    expect(differing(proof)).toContain("the process dies before the commit");
    expect(differing(proof)).toContain("the attempt fails after all was written");
    expect(proof.report).toContain("public.credit: 1 missing");
    expect(proof.report).toContain("besides the database remember");
  });

  it("is refused to a handler that calls the world outside", async () => {
    const mails: unknown[] = [];
    const proof = await prove(
      async (handling) => {
        await credit(handling);
        mails.push({ to: "ann@example.com" });
      },
      { outside: mails },
    );
    expect(differing(proof)).toHaveLength(3);
    expect(proof.report).toContain("outside: 1 too many");
    expect(proof.report).toContain("enqueue a job");
  });

  it("is refused to a handler that does not await what it writes", async () => {
    const proof = await prove(({ tx }) => {
      setTimeout(() => void tx.query("insert into entry (amount) values (5)").catch(() => undefined), 10);
    });
    expect(proof.outcome).toBe("refuted");
    expect(proof.report).toContain("Await all that it does");
  });

  it("is refused to a handler that does only half in its second attempt", async () => {
    const proof = await prove(async (handling) => {
      if (handling.attempt > 1) return;
      await credit(handling);
    });
    expect(differing(proof)).toHaveLength(3);
    expect(proof.report).toContain("missing");
  });

  it("is refused to a handler that doubles a fact which two events tell", async () => {
    const proof = await prove(credit, { twins: [twin] });
    expect(differing(proof)).toEqual(["followed by another event of the same fact (twin 1)"]);
    expect(proof.report).toContain("effect key");
  });

  it("is refused to a handler that doubles when it is replayed, where that is asked for", async () => {
    const proof = await prove(credit, { replay: true });
    expect(differing(proof)).toEqual(["replayed by hand"]);
  });

  it("is refused to a handler that is never done, and says why", async () => {
    const proof = await prove(() => {
      throw new Error("no such customer");
    });
    expect(proof).toMatchObject({
      outcome: "refuted",
      trials: [{ name: "delivered once", differences: [] }],
    });
    expect(proof.report).toContain("the event is not done in the end; it is waiting: no such customer");
  });

  it("is refused to a handler that swallows an error of the database", async () => {
    const proof = await prove(async ({ tx }) => {
      await tx.query("insert into no_such_table values (1)").catch(() => undefined);
    });
    expect(proof.outcome).toBe("refuted");
    expect(proof.report).toContain("not done in the end");
  });

  it("is refused to a handler that does something else each time", async () => {
    let calls = 0;
    const proof = await prove(async ({ tx }) => {
      for (let i = 0; i <= calls; i++) await tx.query("insert into entry (amount) values (1)");
      calls++;
    });
    expect(differing(proof)).toContain("delivered once");
  });

  it("starts from the rows that were arranged", async () => {
    const proof = await prove(
      async ({ tx }) => {
        await tx.query("update entry set amount = amount + 5");
      },
      { arrange: () => app!.once.database.query("insert into entry (amount) values (10)") },
    );
    expect(proof.outcome).toBe("proven");
  });

  it("is not begun where there is something to lose", async () => {
    app = await openApp(database().url, credit);
    const { once, source } = app;
    await source.take(Buffer.from(JSON.stringify(paid)));
    await expect(proveHandler({ once, source, event: paid })).rejects.toThrow("a database of its own");
    const { rows } = await once.database.query("select amount from credit");
    expect(rows).toEqual([{ amount: 5 }]);
    await once.database.query("truncate onceward.task, onceward.payload, credit, entry");
  });

  it("is not begun where a worker runs, or the event is none", async () => {
    app = await openApp(database().url, credit);
    const { once, source } = app;
    await expect(proveHandler({ once, source, event: "{" })).rejects.toThrow("no JSON");
    await once.start();
    await expect(proveHandler({ once, source, event: paid })).rejects.toThrow("before start()");
  });

  it("begins and ends with tables that are empty but for what was there", async () => {
    app = await openApp(database().url, async ({ tx }) => {
      await tx.query("insert into entry (amount) select price from plan");
    });
    const { once, source } = app;
    await once.database.query("create table plan as select 7 as price");
    const arrange = () => once.database.query("insert into entry (amount) values (10)");
    expect(await proveHandler({ once, source, event: paid, arrange })).toMatchObject({ outcome: "proven" });
    expect((await once.database.query("select amount from entry")).rows).toEqual([]);
    expect((await once.database.query("select price from plan")).rows).toEqual([{ price: 7 }]);
    await once.database.query("drop table plan");
  });

  it("says where a table had rows that the handler changes", async () => {
    app = await openApp(database().url, async ({ tx }) => {
      await tx.query("update entry set amount = amount + 5");
    });
    const { once, source } = app;
    await once.database.query("insert into entry (amount) values (10)");
    await expect(proveHandler({ once, source, event: paid })).rejects.toThrow("in `arrange`");
    await once.database.query("truncate entry, onceward.task, onceward.payload");
  });
});
