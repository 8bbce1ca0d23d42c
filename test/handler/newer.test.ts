import { setImmediate as turn } from "node:timers/promises";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PgClient } from "../../src/database/pg.ts";
import type { HandlerOptions } from "../../src/handler/handler.ts";
import type { Handling } from "../../src/handler/handler.ts";
import { describeWith } from "../support/postgres.ts";
import { type App, event, openApp, type StripeEvent } from "./support.ts";

interface Subscription {
  readonly id: string;
  readonly status: "active" | "canceled";
  readonly revision: number;
}

/** The sender: a subscription that changes, an event a change, and an API that shows it as it is now. */
class Provider {
  static #made = 0;
  readonly id = `sub_${process.pid}_${Provider.#made++}`;
  readonly events: StripeEvent[] = [];
  #state: Subscription | undefined;

  get truth(): Subscription {
    return this.#state!;
  }

  change(seconds: number, type: "created" | "updated" | "deleted"): StripeEvent {
    const status = type === "deleted" ? "canceled" : "active";
    this.#state = { id: this.id, status, revision: this.events.length };
    const made = event(`customer.subscription.${type}`, {
      created: 1_750_000_000 + seconds,
      data: { object: { ...this.#state } },
    });
    this.events.push(made);
    return made;
  }
}

describeWith("newest", "applyIfNewer", (database) => {
  let app: App;
  const providers = new Map<string, Provider>();
  let refetched = 0;
  /** Something that happens between the sender's answer and its arrival here. */
  let onRefetched: (() => Promise<unknown>) | undefined;

  type Sent = { created: number; type: string; data: { object: unknown } };
  const objectOf = (sent: Sent) => sent.data.object as Subscription;
  const rule = (over: Partial<HandlerOptions<Sent, Subscription>["applyIfNewer"] & object> = {}) => ({
    applyIfNewer: {
      id: (sent: Sent) => objectOf(sent).id,
      object: objectOf,
      version: (sent: Sent) => sent.created,
      final: (sent: Sent) => sent.type.endsWith(".deleted"),
      refetch: async (sent: Sent) => {
        refetched++;
        const { truth } = providers.get(objectOf(sent).id)!;
        await turn();
        await onRefetched?.();
        return truth;
      },
      ...over,
    },
  });
  const apply = async ({ object, tx }: Handling<Sent, PgClient, Subscription>) => {
    await tx.query(
      `insert into subscription values ($1, $2, $3)
       on conflict (id) do update set status = excluded.status, revision = excluded.revision`,
      [object.id, object.status, object.revision],
    );
  };

  beforeAll(async () => {
    app = await openApp(database().url, { source: { answer: "inline" } });
    await app.engine.database.query(
      "create table subscription (id text primary key, status text, revision integer)",
    );
    app.billing.on("customer.subscription.*", rule() as never, apply as never);
  });
  afterAll(() => app?.close());

  const provider = (): Provider => {
    const made = new Provider();
    providers.set(made.id, made);
    return made;
  };
  /** Until the sender is content, as senders do. */
  const deliver = async (sent: StripeEvent): Promise<void> => {
    while ((await app.deliver(sent)).status !== 200) await turn();
  };
  const stored = async (id: string): Promise<unknown> => {
    const { rows } = await app.engine.database.query(
      "select to_jsonb(s) as s from subscription s where id = $1",
      [id],
    );
    return rows[0]?.["s"];
  };

  describe.each([
    ["in four seconds", [0, 1, 2, 3]],
    ["the last three in one second", [0, 1, 1, 1]],
    ["all in one second", [0, 0, 0, 0]],
  ])("a lifecycle %s", (_, seconds) => {
    it.each(["deleted", "updated"] as const)(
      "that ends %s comes to the same state in every order, with duplicates",
      async (end) => {
        for (const order of permutations([0, 1, 2, 3])) {
          const sender = provider();
          (["created", "updated", "updated", end] as const).forEach((type, i) =>
            sender.change(seconds[i]!, type),
          );
          for (const i of order) await deliver(sender.events[i]!);
          for (const i of order) await deliver(sender.events[i]!);
          expect(await stored(sender.id), `in the order ${order.join()}`).toEqual(sender.truth);
        }
      },
    );
  });

  it("comes to the sender's state whatever is delivered when, also at once, while the object goes on changing", async () => {
    const step = fc.oneof(
      fc.record({ change: fc.integer({ min: 0, max: 1 }) }),
      fc.record({ deliver: fc.array(fc.nat(5), { minLength: 1, maxLength: 3 }) }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 12 }),
        fc.boolean(),
        fc.infiniteStream(fc.nat()),
        async (steps, deleted, dice) => {
          const sender = provider();
          let now = 0;
          sender.change(now, "created");
          for (const one of steps) {
            if ("change" in one) sender.change((now += one.change), "updated");
            else await Promise.all(one.deliver.map((i) => deliver(sender.events[i % sender.events.length]!)));
          }
          if (deleted) sender.change(now, "deleted");
          const rest = sender.events
            .map((sent) => ({ sent, at: dice.next().value as number }))
            .toSorted((a, b) => a.at - b.at);
          await Promise.all(rest.slice(0, 2).map(({ sent }) => deliver(sent)));
          for (const { sent } of rest) await deliver(sent);
          expect(await stored(sender.id)).toEqual(sender.truth);
        },
      ),
      { numRuns: 60 },
    );
  });

  it("does not apply what it fetched before another event was applied", async () => {
    const sender = provider();
    const first = sender.change(0, "created");
    const second = sender.change(0, "updated");
    await deliver(first);
    // While the answer to the second's question is on its way, the object changes again, and that is applied.
    onRefetched = async () => {
      onRefetched = undefined;
      await deliver(sender.change(0, "updated"));
    };
    await deliver(second);
    expect(await stored(sender.id)).toEqual(sender.truth);
    expect(sender.truth.revision).toBe(2);
  });

  it("asks the sender only for ties", async () => {
    const sender = provider();
    for (const seconds of [0, 1, 2]) sender.change(seconds, seconds === 0 ? "created" : "updated");
    const before = refetched;
    for (const sent of [sender.events[1]!, sender.events[0]!, sender.events[2]!]) await deliver(sent);
    expect(refetched).toBe(before);
    await deliver(sender.change(2, "updated"));
    expect(refetched).toBe(before + 1);
  });

  it("knows nothing newer than a final event, whatever the times say, and asks nobody", async () => {
    const sender = provider();
    const [first, stray, deleted] = [
      sender.change(0, "created"),
      sender.change(9, "updated"),
      sender.change(5, "deleted"),
    ];
    const before = refetched;
    for (const sent of [first, deleted, stray]) await deliver(sent);
    expect(await stored(sender.id)).toEqual(sender.truth);

    const another = provider();
    const [late, end] = [another.change(9, "updated"), another.change(5, "deleted")];
    for (const sent of [late, end]) await deliver(sent);
    expect(await stored(another.id)).toEqual(another.truth);
    expect(refetched).toBe(before);
  });

  it("says of an event that came too late that it was skipped, and is done with it", async () => {
    const sender = provider();
    const [early, late] = [sender.change(0, "updated"), sender.change(1, "updated")];
    await deliver(late);
    await deliver(early);
    const known = await app.look("stripe", early.id);
    expect(known).toMatchObject({ state: "done" });
    expect(known?.["result"]).toMatch(/something newer was applied/);
  });

  it("tries again later when the sender cannot be asked", async () => {
    const sender = provider();
    await deliver(sender.change(0, "created"));
    const tied = sender.change(0, "updated");
    onRefetched = () => Promise.reject(new Error("the API is down"));
    expect(await app.deliver(tied)).toMatchObject({ status: 500 });
    onRefetched = undefined;
    expect(await app.look("stripe", tied.id)).toMatchObject({ state: "waiting", reason: "the API is down" });
    expect(await stored(sender.id)).toMatchObject({ revision: 0 });
  });
});

describe.each(["newest", "oldest"] as const)("on the %s Postgres", (which) =>
  describeWith(which, "applyIfNewer without times", (database) => {
    const start = async (rule: object) => {
      const app = await openApp(database().url, { source: { answer: "inline", oncePerObject: "none" } });
      const applied: unknown[] = [];
      app.billing.on(
        "customer.*",
        { applyIfNewer: rule } as never,
        ({ object }: { object: unknown }) => void applied.push(object),
      );
      return { app, applied };
    };
    const of = (id: string, version: unknown) =>
      event("customer.updated", { data: { object: { id, version } } });
    const id = ({ data }: StripeEvent) => data.object.id;

    it("asks for every event but the first where nothing is known of their order", async () => {
      const { app, applied } = await start({
        id,
        object: () => "as sent",
        refetch: async () => "as it is now",
      });
      for (const version of [1, 2, 3]) await app.deliver(of("cus_untimed", version));
      expect(applied).toEqual(["as sent", "as it is now", "as it is now"]);
      await app.close();
    });

    it("compares numbers as numbers and text bytewise, and skips equal versions where they never tie", async () => {
      const { app, applied } = await start({
        id,
        object: ({ data }: StripeEvent) => data.object["version"],
        version: ({ data }: StripeEvent) => data.object["version"],
        refetch: "none",
      });
      for (const version of [9, 10, 10, 2, 11.5]) await app.deliver(of("cus_numbers", version));
      for (const version of ["2026-01-02", "2026-01-01", "2026-01-10"])
        await app.deliver(of("cus_text", version));
      expect(applied).toEqual([9, 10, 11.5, "2026-01-02", "2026-01-10"]);
      await app.close();
    });

    it("applies the latest event once more when somebody replays it", async () => {
      const { app, applied } = await start({
        id,
        object: id,
        version: ({ created }: StripeEvent) => created,
        refetch: "none",
      });
      const [older, latest] = [of("cus_again", 1), { ...of("cus_again", 2), created: 1_750_000_001 }];
      for (const sent of [older, latest]) await app.deliver(sent);
      for (const { id: key } of [older, latest]) {
        await app.engine.ledger.verbs.replay([{ scope: "stripe", key }], { again: true });
      }
      await app.engine.start();
      await Promise.all([older, latest].map((sent) => app.settled(sent.id)));
      expect(applied).toHaveLength(3);
      await app.close();
    });

    it("applies a final event once more when somebody replays it, and nothing else after it", async () => {
      let final = true;
      const { app, applied } = await start({
        id,
        object: ({ data }: StripeEvent) => data.object["version"],
        version: ({ data }: StripeEvent) => data.object["version"],
        final: ({ data }: StripeEvent) => final && data.object["version"] === 2,
        refetch: () => Promise.reject(new Error("it is gone")),
      });
      const [older, last, stray] = [1, 2, 3].map((version) => of("cus_final", version)) as [
        StripeEvent,
        StripeEvent,
        StripeEvent,
      ];
      for (const sent of [older, last, stray]) await app.deliver(sent);
      expect(applied).toEqual([1, 2]);
      // What has ended stays so, even if the rule says otherwise of its last event by now.
      final = false;
      await app.engine.start();
      for (const { id: key } of [last, stray, older, last]) {
        await app.engine.ledger.verbs.replay([{ scope: "stripe", key }], { again: true });
        app.engine.worker.wake();
        await app.settled(key);
      }
      expect(applied).toEqual([1, 2, 2, 2]);
      await app.close();
    });

    it("fails an attempt whose version is none", async () => {
      const { app } = await start({ id, object: id, version: () => Number.NaN, refetch: "none" });
      expect(await app.deliver(of("cus_nan", 1))).toMatchObject({ status: 500 });
      await app.close();
    });
  }),
);

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length <= 1) return [[...items]];
  return items.flatMap((item, i) => permutations(items.toSpliced(i, 1)).map((rest) => [item, ...rest]));
}
