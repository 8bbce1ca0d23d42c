/** The same on the embedded Postgres, where one session serves everybody. */
import type { PGlite } from "@electric-sql/pglite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pgliteDatabase } from "../../src/database/pglite.ts";
import { connectSource } from "../../src/handler/source.ts";
import { stripe } from "../../src/source/stripe.ts";
import { Engine } from "../../src/worker/engine.ts";
import { createPglite } from "../support/pglite.ts";
import { deliveryOf, event, read, SECRET } from "./support.ts";

describe.each(["inline", "queued"] as const)("handlers on PGlite, %s", (answer) => {
  let lite: PGlite;
  beforeAll(async () => {
    lite = await createPglite();
    await lite.exec("create table effect (event text)");
  });
  afterAll(() => lite.close());

  it("have one effect for each event, however many come at once and how often", async () => {
    const engine = new Engine(pgliteDatabase(lite), { pollMs: 50 });
    const billing = connectSource(engine, stripe({ secrets: SECRET }), { answer });
    billing
      .on("invoice.paid", async ({ event: { id }, tx }) => {
        await tx.query("insert into effect values ($1)", [id]);
      })
      .on("invoice.*", { name: "second" }, async ({ event: { id }, tx }) => {
        await tx.query("insert into effect values ($1)", [`second ${id}`]);
      });
    if (answer === "queued") await engine.start();
    const sent = Array.from({ length: 10 }, () => event("invoice.paid"));
    const deliveries = [...sent, ...sent].map(async (one) =>
      read(await billing.receive(deliveryOf(JSON.stringify(one)))),
    );
    for (const { status } of await Promise.all(deliveries)) expect(status).toBe(200);
    const effects = async () =>
      (await lite.query<{ event: string }>("select event from effect order by 1")).rows.map(
        (row) => row.event,
      );
    const all = sent.flatMap(({ id }) => [id, `second ${id}`]).toSorted();
    await expect.poll(effects, { timeout: 60_000 }).toEqual(all);
    await engine.stop();
    expect(await effects()).toEqual(all);
  });

  it("are run whatever time a source says that the event happened", async () => {
    const engine = new Engine(pgliteDatabase(lite), { pollMs: 50 });
    const own = stripe({ secrets: SECRET });
    const times = [new Date(Number.NaN), new Date(-1e14), new Date(8e15)];
    const billing = connectSource(
      engine,
      {
        ...own,
        name: `odd-${answer}`,
        identify: (request) => ({ ...own.identify(request), createdAt: times.shift() }),
      },
      { answer, worker: "elsewhere" },
    );
    billing.on("invoice.paid", async () => {});
    while (times.length > 0) {
      const { status } = read(await billing.receive(deliveryOf(JSON.stringify(event("invoice.paid")))));
      expect(status).toBe(200);
    }
    await engine.stop();
  });
});
