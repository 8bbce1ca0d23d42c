import { runInNewContext } from "node:vm";
import { afterEach, describe, expect, it } from "vitest";
import type { Receipt } from "../../src/receive/receiver.ts";
import {
  type App,
  type AppOptions,
  deliveryOf,
  effect,
  event,
  openApp,
  read,
  signature,
} from "../handler/support.ts";
import { describeWith } from "../support/postgres.ts";

/** A gate that a handler waits at, and that knows when it has come. */
function gate() {
  let come = (): void => undefined;
  let go = (): void => undefined;
  const reached = new Promise<void>((resolve) => (come = resolve));
  const opened = new Promise<void>((resolve) => (go = resolve));
  return {
    reached,
    open: () => go(),
    pass: () => {
      come();
      return opened;
    },
  };
}

describeWith("newest", "a delivery", (database) => {
  let apps: App[] = [];
  const open = async (options?: AppOptions): Promise<App> => {
    const app = await openApp(database().url, options);
    apps.push(app);
    return app;
  };
  afterEach(async () => {
    await Promise.all(apps.map((app) => app.close()));
    apps = [];
  });
  const inline = { source: { answer: "inline" } } as const;

  describe("that is queued", () => {
    it("is accepted once it is recorded, and a duplicate ever after", async () => {
      const app = await open();
      const door = gate();
      app.billing.on("invoice.paid", async ({ event: { id }, tx }) => {
        await door.pass();
        await effect(tx, id);
      });
      await app.engine.start();
      const sent = event("invoice.paid");
      expect(await app.deliver(sent)).toMatchObject({ status: 200, outcome: "accepted" });
      await door.reached;
      // Somebody is running it: the ledger owns it, and the sender may stop.
      expect(await app.deliver(sent)).toMatchObject({ status: 200, outcome: "duplicate" });
      door.open();
      await app.settled(sent.id);
      expect(await app.deliver(sent)).toMatchObject({ status: 200, outcome: "duplicate" });
      expect(await app.effectsOf(sent.id)).toEqual(["done"]);
    });

    it("waits in the ledger where workers run elsewhere", async () => {
      const receiving = await open({ source: { worker: "elsewhere" } });
      receiving.billing.on("invoice.paid", () => {
        throw new Error("not here");
      });
      const sent = event("invoice.paid");
      expect(await receiving.deliver(sent)).toMatchObject({ status: 200, outcome: "accepted" });
      expect(await receiving.look("stripe", sent.id)).toMatchObject({ state: "waiting", attempt: 0 });
      const working = await open();
      working.billing.on("invoice.paid", ({ event: { id }, tx }) => effect(tx, id));
      await working.engine.start();
      await working.settled(sent.id);
      expect(await working.effectsOf(sent.id)).toEqual(["done"]);
    });

    it("is not taken where workers run elsewhere and no handler says what they run", async () => {
      const receiving = await open({ source: { worker: "elsewhere" } });
      const sent = event("invoice.paid");
      for (let i = 0; i < 2; i++)
        expect(await receiving.deliver(sent)).toMatchObject({ status: 500, outcome: "config_invalid" });
      const take = () => receiving.billing.take(Buffer.from(JSON.stringify(sent)));
      await expect(take()).rejects.toThrow(/kept as ignored.*Register the same handlers here.*on\("\*"/);
      // The sender has come again until a process knew better.
      const mended = await open({ source: { worker: "elsewhere" } });
      mended.billing.on("*", () => undefined);
      expect(await mended.deliver(sent)).toMatchObject({ status: 200, outcome: "accepted" });
    });

    it("is run by its receiver where nobody else is sure to run it", async () => {
      const app = await open();
      app.billing.on("invoice.paid", ({ event: { id }, tx }) => effect(tx, id));
      const sent = event("invoice.paid");
      expect(await app.deliver(sent)).toMatchObject({ status: 200, outcome: "done" });
      expect(await app.effectsOf(sent.id)).toEqual(["done"]);
    });

    it("is parked, and says so, when its attempts are used up", async () => {
      const app = await open();
      app.billing.on("invoice.paid", { maxAttempts: 1 }, () => {
        throw new Error("never");
      });
      await app.engine.start();
      const sent = event("invoice.paid");
      await app.deliver(sent);
      await app.settled(sent.id);
      expect(await app.deliver(sent)).toMatchObject({ status: 200, outcome: "parked" });
      expect(await app.look("stripe", sent.id)).toMatchObject({ state: "dead", reason: "never" });
    });
  });

  describe("that is handled inline", () => {
    it("is tried again by the sender before its backoff is over, and succeeds once", async () => {
      // Nobody who only waits would live to see the backoff end.
      const options = { source: { answer: "inline", waitMs: 50, backoff: { baseMs: 3_600_000 } } } as const;
      const failing = await open(options);
      failing.billing.on("invoice.paid", () => {
        throw new Error("not yet");
      });
      const sent = event("invoice.paid");
      expect(await failing.deliver(sent)).toMatchObject({ status: 500, outcome: "handler_failed" });
      const mended = await open(options);
      mended.billing.on("invoice.paid", ({ event: { id }, tx, attempt }) =>
        effect(tx, id, `attempt ${attempt}`),
      );
      expect(await mended.deliver(sent)).toMatchObject({ status: 200, outcome: "done" });
      expect(await mended.deliver(sent)).toMatchObject({ status: 200, outcome: "duplicate" });
      expect(await mended.effectsOf(sent.id)).toEqual(["attempt 2"]);
    });

    it("gets 409, and never a 2xx, while another process runs it", async () => {
      const door = gate();
      const running = await open(inline);
      running.billing.on("invoice.paid", async ({ event: { id }, tx }) => {
        await door.pass();
        await effect(tx, id);
      });
      const waiting = await open({ source: { answer: "inline", waitMs: 50 } });
      waiting.billing.on("invoice.paid", () => {
        throw new Error("not here");
      });
      const sent = event("invoice.paid");
      const first = running.deliver(sent);
      await door.reached;
      expect(await waiting.deliver(sent)).toMatchObject({ status: 409, headers: { "retry-after": "1" } });
      door.open();
      expect(await first).toMatchObject({ status: 200, outcome: "done" });
      expect(await waiting.deliver(sent)).toMatchObject({ status: 200, outcome: "duplicate" });
      expect(await running.effectsOf(sent.id)).toEqual(["done"]);
    });

    it("waits a little for who is running it, here or elsewhere, and then is a duplicate", async () => {
      const door = gate();
      const running = await open(inline);
      running.billing.on("invoice.paid", async ({ event: { id }, tx }) => {
        await door.pass();
        await effect(tx, id);
      });
      const waiting = await open(inline);
      waiting.billing.on("invoice.paid", () => {
        throw new Error("not here");
      });
      const sent = event("invoice.paid");
      const first = running.deliver(sent);
      await door.reached;
      const others = [running.deliver(sent), waiting.deliver(sent)];
      // Both are recorded as duplicates before the runner goes on: so both have to wait for it.
      await Promise.all(apps.map((app) => app.engine.ledger.record({ scope: "x", key: `${Math.random()}` })));
      door.open();
      expect(await first).toMatchObject({ outcome: "done" });
      for (const other of await Promise.all(others))
        expect(other).toMatchObject({ status: 200, outcome: "duplicate" });
    });

    it("lets one failure answer for the duplicates that came with it", async () => {
      const app = await open(inline);
      let attempts = 0;
      app.billing.on("invoice.paid", () => {
        attempts++;
        throw new Error("broken");
      });
      const sent = event("invoice.paid");
      const answers = await Promise.all(Array.from({ length: 50 }, () => app.deliver(sent)));
      expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 50 }, () => 500));
      expect(await app.deliver(sent)).toMatchObject({ status: 500, outcome: "handler_failed" });
      expect(attempts).toBe(1);
      expect(await app.look("stripe", sent.id)).toMatchObject({ state: "waiting", tries: 1 });
    });

    it("is parked with 200 once it is dead: the sender cannot help it", async () => {
      const app = await open({ source: { answer: "inline", maxAttempts: 1 } });
      app.billing.on("invoice.paid", () => {
        throw new Error("never");
      });
      const sent = event("invoice.paid");
      expect(await app.deliver(sent)).toMatchObject({ status: 500 });
      expect(await app.look("stripe", sent.id)).toMatchObject({ state: "dead", max_tries: 1 });
      expect(await app.deliver(sent)).toMatchObject({ status: 200, outcome: "parked" });
    });

    it("is recorded although everybody is busy, and answers 409 or runs when there is a place", async () => {
      const app = await open({ source: { answer: "inline", concurrency: 1, waitMs: 50 } });
      const door = gate();
      const [slow, patient, late] = [event("invoice.paid"), event("invoice.paid"), event("invoice.paid")];
      app.billing.on("invoice.paid", async ({ event: { id }, tx }) => {
        if (id === slow.id) await door.pass();
        await effect(tx, id);
      });
      const first = app.deliver(slow);
      await door.reached;
      expect(await app.deliver(late)).toMatchObject({ status: 409 });
      expect(await app.stateOf("stripe", late.id)).toBe("waiting");
      const second = app.deliver(patient);
      door.open();
      expect(await first).toMatchObject({ outcome: "done" });
      expect(await second).toMatchObject({ outcome: "done" });
      expect(await app.deliver(late)).toMatchObject({ outcome: "done" });
    });

    it("is chosen by type, and waits only for the handlers that want it", async () => {
      const app = await open({ pollMs: 600_000 });
      const door = gate();
      app.billing
        .on("checkout.session.completed", { name: "order", answer: "inline" }, ({ event: { id }, tx }) =>
          effect(tx, id, "order"),
        )
        .on("checkout.session.completed", { name: "report" }, async ({ event: { id }, tx }) => {
          await door.pass();
          await effect(tx, id, "report");
        })
        .on("invoice.paid", ({ event: { id }, tx }) => effect(tx, id));
      await app.engine.start();
      const [awaited, other] = [event("checkout.session.completed"), event("invoice.paid")];
      expect(await app.deliver(awaited)).toMatchObject({ status: 200, outcome: "done" });
      expect(await app.effectsOf(awaited.id)).toEqual(["order"]);
      expect(await app.deliver(other)).toMatchObject({ status: 200, outcome: "accepted" });
      door.open();
      await app.settled(`checkout.session.completed:${awaited.data.object.id}`);
      expect(await app.effectsOf(awaited.id)).toEqual(["order", "report"]);
    });
  });

  describe("and its identity", () => {
    it("keeps accounts and modes apart", async () => {
      const app = await open(inline);
      app.billing.on("invoice.paid", ({ event: { id }, tx, scope }) => effect(tx, id, scope));
      const sent = event("invoice.paid");
      await app.deliver(sent);
      await app.deliver({ ...sent, livemode: false });
      await app.deliver({ ...sent, account: "acct_1" });
      await app.deliver({ ...sent, account: "acct_1", livemode: false });
      await app.deliver({ ...sent, account: "test" });
      await app.deliver({ ...sent, account: "test", livemode: false });
      await app.deliver({ ...sent, account: "acct_1/test" });
      expect(await app.effectsOf(sent.id)).toEqual([
        "stripe",
        "stripe/test",
        "stripe/acct_1",
        "stripe/acct_1/test",
        "stripe/%74est",
        "stripe/%74est/test",
        "stripe/acct_1%2ftest",
      ]);
    });

    it("treats twins, two events of one fact, as one", async () => {
      const app = await open(inline);
      app.billing.on("checkout.session.completed", ({ event: { id }, tx }) => effect(tx, id));
      const one = event("checkout.session.completed");
      const twin = { ...event("checkout.session.completed", { data: one.data }), created: one.created + 1 };
      expect(await app.deliver(one)).toMatchObject({ outcome: "done" });
      expect(await app.deliver(twin)).toMatchObject({ status: 200, outcome: "duplicate" });
      expect(await app.deliver(one)).toMatchObject({ outcome: "duplicate" });
      expect([await app.effectsOf(one.id), await app.effectsOf(twin.id)]).toEqual([["done"], []]);
      expect(await app.stateOf("stripe", `checkout.session.completed:${one.data.object.id}`)).toBe("done");
    });

    it("has no twins among types that recur", async () => {
      const app = await open(inline);
      app.billing.on("customer.updated", ({ event: { id }, tx }) => effect(tx, id));
      const one = event("customer.updated");
      const later = event("customer.updated", { data: one.data });
      for (const sent of [one, later]) expect(await app.deliver(sent)).toMatchObject({ outcome: "done" });
    });

    it("takes more types that happen once per object, or none", async () => {
      const more = await open({ source: { answer: "inline", oncePerObject: ["customer.updated"] } });
      more.billing.on("customer.updated", () => undefined).on("invoice.created", () => undefined);
      const one = event("customer.updated");
      const twin = { ...event("customer.updated", { data: one.data }), created: one.created + 1 };
      expect(await more.deliver(one)).toMatchObject({ outcome: "done" });
      expect(await more.deliver(twin)).toMatchObject({ outcome: "duplicate" });
      const none = await open({ source: { answer: "inline", oncePerObject: "none" } });
      none.billing.on("invoice.created", () => undefined);
      const [first, second] = [event("invoice.created"), event("invoice.created")];
      for (const sent of [first, { ...second, data: first.data }]) {
        expect(await none.deliver(sent)).toMatchObject({ outcome: "done" });
      }
    });

    it.each(["inline", "queued"] as const)(
      "flags a known id with other content, keeps that apart, and runs it only by name (%s)",
      async (answer) => {
        const app = await open({ source: { answer } });
        app.billing.on("invoice.paid", ({ event: sent, tx }) => effect(tx, sent.id, sent.data.object.id));
        await app.engine.start();
        const sent = event("invoice.paid");
        const other = { ...sent, data: { object: { id: "in_other" } } };
        await app.deliver(sent);
        await app.settled(sent.id);
        for (let i = 0; i < 2; i++)
          expect(await app.deliver(other)).toMatchObject({ status: 200, outcome: "conflict" });
        expect(await app.effectsOf(sent.id)).toEqual([sent.data.object.id]);
        const { rows } = await app.engine.database.query(
          "select to_jsonb(t) as t from onceward.task t where scope = 'stripe/!conflict' and starts_with(key, $1)",
          [sent.id],
        );
        expect(rows).toMatchObject(
          [{ t: { state: "ignored", cause: `stripe ${sent.id}`, reason: /with other content/ } }].map(
            ({ t }) => ({
              t: { ...t, reason: expect.stringMatching(t.reason) as unknown },
            }),
          ),
        );
        const { key } = (rows[0] as { t: { key: string } }).t;
        await app.engine.ledger.verbs.replay([{ scope: "stripe/!conflict", key }]);
        app.engine.worker.wake();
        await app.settled(key);
        expect(await app.effectsOf(sent.id)).toEqual([sent.data.object.id, "in_other"]);
      },
    );

    it("does not mind that deliveries of one event differ in what has no meaning", async () => {
      const app = await open(inline);
      app.billing.on("invoice.paid", ({ event: { id }, tx }) => effect(tx, id));
      const sent = event("invoice.paid", { pending_webhooks: 3 });
      expect(await app.deliver(sent)).toMatchObject({ outcome: "done" });
      expect(await app.deliver({ ...sent, pending_webhooks: 1 })).toMatchObject({ outcome: "duplicate" });
    });
  });

  it("stores the signed bytes as they came", async () => {
    const app = await open();
    app.billing.on("customer.updated", ({ event: { id }, tx }) => effect(tx, id));
    await app.engine.start();
    const odd = [
      String.raw`"a\u0000b"`,
      String.raw`"\ud800"`,
      "12345678901234567890123",
      `${"[".repeat(6000)}${"]".repeat(6000)}`,
      String.raw`{"a":1,"a":2,"__proto__":{"polluted":true},"constructor":1}`,
      '"naïve ✓ 💥"',
      " 1 \n",
    ];
    for (const [i, value] of odd.entries()) {
      const id = `evt_odd_${i}`;
      const body = `{"object":"event","id":"${id}","type":"customer.updated","livemode":true,"created":1,"data":{"object":{"id":"cus_${i}","odd":${value}}}}\n`;
      expect(read(await app.billing.receive(deliveryOf(body)))).toMatchObject({
        status: 200,
        outcome: "accepted",
      });
      await app.settled(id);
      expect(await app.stateOf("stripe", id)).toBe("done");
      const stored = await app.engine.ledger.verbs.payload({ scope: "stripe", key: id });
      expect(Buffer.from(stored as string).equals(Buffer.from(body))).toBe(true);
    }
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  it("is taken with bytes of another realm, in which Jest and Next run code", async () => {
    const app = await open(inline);
    app.billing.on("customer.updated", ({ event: { id }, tx }) => effect(tx, id));
    const sent = event("customer.updated");
    const bytes = Buffer.from(JSON.stringify(sent));
    const body = runInNewContext("Uint8Array.from(bytes)", { bytes: [...bytes] }) as Uint8Array;
    expect(body).not.toBeInstanceOf(Uint8Array);
    expect(read(await app.billing.receive(deliveryOf(body)))).toMatchObject({ status: 200, outcome: "done" });
    expect(await app.effectsOf(sent.id)).toEqual(["done"]);
    expect(await app.engine.ledger.verbs.payload({ scope: "stripe", key: sent.id })).toBe(bytes.toString());
  });

  it("goes on through a rotation of the secret half way through its retries", async () => {
    const sent = event("invoice.paid");
    const body = JSON.stringify(sent);
    const [old, fresh] = ["whsec_the_old_one", "whsec_the_new_one"];
    const openWith = async (secrets: string[], works: boolean) => {
      const app = await openApp(database().url, { source: { answer: "inline" }, secrets });
      apps.push(app);
      app.billing.on("invoice.paid", ({ event: { id }, tx }) =>
        works ? effect(tx, id) : Promise.reject(new Error("not yet")),
      );
      return async (...signatures: string[]) => {
        const header = signatures
          .map((one, i) => (i === 0 ? one : one.slice(one.indexOf(",") + 1)))
          .join(",");
        return read(await app.billing.receive(deliveryOf(body, { "stripe-signature": header })));
      };
    };
    const before = await openWith([old], false);
    expect(await before(signature(body, old))).toMatchObject({ status: 500 });
    // While it rolls, the sender signs with both; the application knows the old one, then both, then the new one.
    const both = [signature(body, fresh), signature(body, old)];
    expect(await before(...both)).toMatchObject({ status: 500 });
    const rolling = await openWith([old, fresh], true);
    expect(await rolling(...both)).toMatchObject({ status: 200, outcome: "done" });
    const after = await openWith([fresh], true);
    expect(await after(signature(body, fresh))).toMatchObject({ status: 200, outcome: "duplicate" });
    expect(await after(signature(body, old))).toMatchObject({ status: 400, outcome: "signature_mismatch" });
  });

  it("is told to the log without a payload, a header or a secret", async () => {
    const receipts: Receipt[] = [];
    const app = await open({ source: { answer: "inline", log: (receipt) => void receipts.push(receipt) } });
    app.billing.on("invoice.paid", () => {
      throw new Error("mail to jane@example.com failed");
    });
    const sent = event("invoice.paid", { data: { object: { id: "in_1", email: "jane@example.com" } } });
    await app.deliver(sent);
    expect(receipts).toEqual([
      {
        source: "stripe",
        status: 500,
        outcome: "failed",
        code: "handler_failed",
        id: sent.id,
        type: "invoice.paid",
        scope: "stripe",
        key: sent.id,
        ms: expect.any(Number) as number,
      },
    ]);
  });

  it("can come another way, and is then treated alike", async () => {
    const app = await open(inline);
    app.billing.on("invoice.paid", ({ event: { id }, tx }) => effect(tx, id));
    const sent = event("invoice.paid");
    expect(await app.billing.take(Buffer.from(JSON.stringify(sent)))).toEqual({
      outcome: "done",
      scope: "stripe",
      key: sent.id,
    });
    expect(await app.deliver(sent)).toMatchObject({ outcome: "duplicate" });
    await expect(app.billing.take(Buffer.from("{}"))).rejects.toMatchObject({ code: "body_unreadable" });
  });
});
