import { expect, it, vi } from "vitest";
import { OncewardError } from "../../src/errors.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import { connectSource } from "../../src/handler/source.ts";
import { stripe } from "../../src/source/stripe.ts";
import { Engine } from "../../src/worker/engine.ts";
import { describeWith } from "../support/postgres.ts";
import { event, openApp, SECRET } from "./support.ts";

function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}

describeWith("newest", "events that are handled while their senders wait", (fresh) => {
  it("are claimed once, however many of their deliveries wait for a place", async () => {
    const database = pgDatabase(fresh().url);
    let claims = 0;
    const counted: typeof database = {
      ...database,
      query(text, params) {
        if (text.includes(".claim(")) claims++;
        return database.query(text, params);
      },
    };
    const engine = new Engine(counted);
    const source = { answer: "inline", concurrency: 2, waitMs: 60_000 } as const;
    const billing = connectSource(engine, stripe({ secrets: SECRET }), source);
    const [a, b, duplicated] = [event("invoice.paid"), event("invoice.paid"), event("invoice.paid")];
    // A handler says that it runs, and ends when the test says so.
    const gates = new Map([a, b, duplicated].map(({ id }) => [id, { runs: gate(), may: gate() }]));
    billing.on("invoice.paid", ({ event: { id } }) => {
      gates.get(id)?.runs.open();
      return gates.get(id)?.may.opened;
    });
    const started = (one: typeof a) => gates.get(one.id)?.runs.opened;
    const end = (one: typeof a) => gates.get(one.id)?.may.open();
    const take = (one: typeof a) => billing.take(Buffer.from(JSON.stringify(one)));

    const others = [take(a), take(b)];
    await Promise.all([started(a), started(b)]);
    const deliveries = Array.from({ length: 50 }, () => take(duplicated));
    while ((await engine.ledger.verbs.look({ scope: "stripe", key: duplicated.id })) === null);
    end(a);
    await started(duplicated);
    // Now a place is free for those in the line, and what they wait for runs.
    end(b);
    await Promise.all(others);
    end(duplicated);

    const outcomes = (await Promise.all(deliveries)).map(({ outcome }) => outcome);
    expect(outcomes.toSorted()).toEqual(["done", ...Array.from({ length: 49 }, () => "duplicate")]);
    expect(claims).toBe(1);
    await engine.stop();
    await database.close();
  });

  it.each([
    ["one handler", ["only"]],
    ["several handlers", ["first", "second"]],
  ])("are done for their senders where the commit is answered by silence: %s", async (_, names) => {
    const database = pgDatabase(fresh().url);
    let silent = true;
    const cutOff: typeof database = {
      ...database,
      async transaction(work, options) {
        const result = await database.transaction(work, options);
        if (!silent) return result;
        silent = false;
        throw new OncewardError("database_unavailable", "cut off after the commit");
      },
    };
    const engine = new Engine(cutOff);
    const billing = connectSource(engine, stripe({ secrets: SECRET }), { answer: "inline" });
    const ran: string[] = [];
    for (const name of names) billing.on("invoice.paid", { name }, () => void ran.push(name));
    const sent = event("invoice.paid");
    expect(await billing.take(Buffer.from(JSON.stringify(sent)))).toMatchObject({ outcome: "done" });
    expect(ran.toSorted()).toEqual(names);
    const left = await engine.ledger.verbs.list({ contains: sent.id, max: 10 });
    expect(left.map(({ state }) => state)).toEqual(left.map(() => "done"));
    await engine.stop();
    await database.close();
  });

  it.each([
    ["the claim of a known one", "claim", { delayMs: 60_000 }],
    ["the replay of an ignored one", "replay", { ignored: "no handler for this type" }],
    ["the record of one with other content", "record", { fingerprint: "another" }],
  ] as const)(
    "are answered with 503 in good time where the database is silent at %s",
    async (_, verb, known) => {
      const app = await openApp(fresh().url, { source: { answer: "inline" } });
      app.billing.on("invoice.paid", () => undefined);
      const sent = event("invoice.paid");
      const { ledger } = app.engine;
      await app.engine.ready();
      await ledger.record({
        scope: "stripe",
        key: sent.id,
        type: sent.type,
        body: JSON.stringify(sent),
        ...known,
      });
      const asked = gate();
      // From here on the test says what time it is; what came before had to reach the database.
      const silent = () => {
        vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
        asked.open();
        return new Promise<never>(() => {});
      };
      Object.assign(verb === "record" ? ledger : ledger.verbs, { [verb]: silent });
      let answer: unknown;
      void app.deliver(sent).then((given) => (answer = given));
      await asked.opened;
      await vi.advanceTimersByTimeAsync(8_000);
      vi.useRealTimers();
      await new Promise((resolve) => setImmediate(resolve));
      expect(answer).toMatchObject({ status: 503, outcome: "database_unavailable" });
      await app.close();
    },
  );
});
