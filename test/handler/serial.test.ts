import { expect, it } from "vitest";
import { describeWith } from "../support/postgres.ts";
import { effect, event, openApps } from "./support.ts";

describeWith("newest", "serialBy", (database) => {
  const open = openApps(database);

  const of = (customer: string) =>
    event("invoice.paid", { data: { object: { id: `in_${Math.random()}`, customer } } });
  const customerOf = ({ data }: { data: { object: object } }) =>
    (data.object as { customer: string }).customer;

  it("runs the events of one group one after another, and other groups meanwhile", async () => {
    const app = await open();
    const running = new Map<string, number>();
    const order: string[] = [];
    let together = 0;
    let otherHasStarted: (() => void) | undefined;
    const other = new Promise<void>((resolve) => (otherHasStarted = resolve));
    app.billing.on("invoice.paid", { serialBy: customerOf }, async ({ event: sent, tx }) => {
      const customer = customerOf(sent);
      const now = (running.get(customer) ?? 0) + 1;
      running.set(customer, now);
      together = Math.max(together, now);
      if (customer === "cus_b") otherHasStarted?.();
      // The first of the busy group goes on only when the other group has started beside it.
      else await other;
      await effect(tx, sent.id);
      order.push(sent.id);
      running.set(customer, now - 1);
    });
    await app.engine.start();
    const busy = Array.from({ length: 10 }, () => of("cus_a"));
    for (const one of busy) expect(await app.deliver(one)).toMatchObject({ outcome: "accepted" });
    const single = of("cus_b");
    await app.deliver(single);
    await Promise.all([...busy, single].map(({ id }) => app.settled(id)));
    expect(together).toBe(1);
    expect(order.filter((id) => id !== single.id)).toEqual(busy.map(({ id }) => id));
    for (const { id } of [...busy, single]) expect(await app.effectsOf(id)).toEqual(["done"]);
  });

  it("makes an inline sender wait for its turn, and answers 409 when it does not come", async () => {
    const app = await open({ source: { answer: "inline", waitMs: 100 } });
    let started: (() => void) | undefined;
    let goOn: (() => void) | undefined;
    const hasStarted = new Promise<void>((resolve) => (started = resolve));
    const mayGoOn = new Promise<void>((resolve) => (goOn = resolve));
    const [first, second] = [of("cus_slow"), of("cus_slow")];
    app.billing.on("invoice.paid", { serialBy: customerOf }, async ({ event: { id }, tx }) => {
      if (id === first.id) {
        started?.();
        await mayGoOn;
      }
      await effect(tx, id);
    });
    const slow = app.deliver(first);
    await hasStarted;
    expect(await app.deliver(second)).toMatchObject({ status: 409, headers: { "retry-after": "1" } });
    expect(await app.stateOf("stripe", second.id)).toBe("waiting");
    goOn?.();
    expect(await slow).toMatchObject({ outcome: "done" });
    expect(await app.deliver(second)).toMatchObject({ outcome: "done" });
  });

  it("keeps an event for which it throws, fails it in sight, and runs it in its group once it is mended", async () => {
    const options = { source: { answer: "inline" } } as const;
    const broken = await open(options);
    broken.billing.on(
      "invoice.paid",
      {
        serialBy: () => {
          throw new Error("no customer here");
        },
      },
      () => undefined,
    );
    const sent = of("cus_mended");
    expect(await broken.deliver(sent)).toMatchObject({ status: 500 });
    expect(await broken.look("stripe", sent.id)).toMatchObject({
      state: "waiting",
      reason: "no customer here",
    });

    const mended = await open(options);
    mended.billing.on("invoice.paid", { serialBy: customerOf }, ({ event: { id }, tx, scope }) =>
      effect(tx, id, scope),
    );
    expect(await mended.deliver(sent)).toMatchObject({ status: 200, outcome: "done" });
    expect(await mended.effectsOf(sent.id)).toEqual(["stripe/#invoice.paid"]);
    expect(await mended.look("stripe/#invoice.paid", sent.id)).toMatchObject({
      serial: "cus_mended",
      state: "done",
    });
  });

  it("leaves an event without a group alone, and refuses names that the ledger cannot keep", async () => {
    const app = await open({ source: { answer: "inline" } });
    app.billing.on("invoice.paid", { serialBy: () => undefined }, ({ event: { id }, tx }) => effect(tx, id));
    app.billing.on("customer.updated", { serialBy: () => "x".repeat(513) }, () => undefined);
    const [free, unfit] = [of("cus_x"), event("customer.updated")];
    expect(await app.deliver(free)).toMatchObject({ outcome: "done" });
    expect(await app.look("stripe", free.id)).toMatchObject({ serial: null });
    expect(await app.deliver(unfit)).toMatchObject({ status: 500 });
    expect((await app.look("stripe", unfit.id))?.["reason"]).toMatch(/1 to 512 bytes/);
  });
});
