import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import Stripe from "stripe";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NotDone } from "../../src/step/outcome.ts";
import { fetchOnce, idempotencyKey, keysLast } from "../../src/step/outside.ts";
import { describeSteps } from "./support.ts";

/** A provider that honours Idempotency-Key, remembers what it did, and can forget keys. */
class Provider {
  readonly effects: string[] = [];
  readonly #answers = new Map<string, string>();
  status = 200;
  readonly server: Server = createServer(
    (request, response) =>
      void this.#answer(request).then((body) => {
        response.writeHead(this.status, { "content-type": "application/json" }).end(body);
      }),
  );

  forgetKeys(): void {
    this.#answers.clear();
  }

  async #answer(request: IncomingMessage): Promise<string> {
    for await (const _ of request);
    if (this.status !== 200) return "{}";
    const key = String(request.headers["idempotency-key"]);
    const known = this.#answers.get(key);
    if (known !== undefined) return known;
    this.effects.push(key);
    const answer = JSON.stringify({ id: `pi_${this.effects.length}`, object: "payment_intent" });
    this.#answers.set(key, answer);
    return answer;
  }
}

const provider = new Provider();
let port: number;
beforeAll(async () => {
  await new Promise<void>((resolve) => provider.server.listen(0, "127.0.0.1", resolve));
  port = (provider.server.address() as AddressInfo).port;
});
afterAll(() => new Promise((resolve) => provider.server.close(resolve)));

describeSteps("a call of the Stripe SDK that carries the step's key", (bench) => {
  const stripe = () =>
    new Stripe("sk_test_123", {
      host: "127.0.0.1",
      port,
      protocol: "http",
      maxNetworkRetries: 0,
      telemetry: false,
    });
  const pay = { amount: 500, currency: "eur" };

  it("charges once although the process died before the answer was saved", async () => {
    const before = provider.effects.length;
    await bench().dies("charge", (step, die) =>
      step("charge", { keyLasts: keysLast.stripe }, async (tools) => {
        await stripe().paymentIntents.create(pay, idempotencyKey(tools));
        return die();
      }),
    );
    const ran = await bench().attempt("charge", (step) =>
      step("charge", { keyLasts: keysLast.stripe }, async (tools) => {
        const intent = await stripe().paymentIntents.create(pay, idempotencyKey(tools));
        return intent.id;
      }),
    );
    expect(ran).toEqual({ outcome: "done", result: `"pi_${before + 1}"` });
    expect(provider.effects.length - before).toBe(1);
  });

  it("is not repeated once Stripe has forgotten the key: it asks instead", async () => {
    const before = provider.effects.length;
    await bench().dies("late", (step, die) =>
      step("charge", { keyLasts: keysLast.stripe }, async (tools) => {
        await stripe().paymentIntents.create(pay, idempotencyKey(tools));
        return die();
      }),
    );
    provider.forgetKeys();
    await bench().clock.advance(24 * 3_600_000);
    let asked = 0;
    const find = (key: string) => {
      asked++;
      return provider.effects.includes(key)
        ? ({ done: true, value: "found" } as const)
        : ({ done: false } as const);
    };
    const ran = await bench().attempt("late", (step) =>
      step("charge", { keyLasts: keysLast.stripe, unknown: { verify: find } }, async (tools) => {
        const intent = await stripe().paymentIntents.create(pay, idempotencyKey(tools));
        return intent.id;
      }),
    );
    expect(ran).toEqual({ outcome: "done", result: '"found"' });
    expect({ asked, effects: provider.effects.length - before }).toEqual({ asked: 1, effects: 1 });
  });

  it("has a key for each of several calls", () => {
    expect(idempotencyKey({ key: "k" })).toEqual({ idempotencyKey: "k" });
    expect(idempotencyKey({ key: "k" }, "refund")).toEqual({ idempotencyKey: "k:refund" });
  });
});

describe("fetchOnce", () => {
  const tools = (key: string) => ({ key, signal: new AbortController().signal });
  const url = () => `http://127.0.0.1:${port}/orders`;

  it("carries the key, so that a repeated call has one effect", async () => {
    const before = provider.effects.length;
    const answers = [];
    for (let i = 0; i < 2; i++) {
      answers.push(await (await fetchOnce(tools("order 1"), url(), { method: "POST", body: "{}" })).json());
    }
    expect(answers[1]).toEqual(answers[0]);
    expect(provider.effects.slice(before)).toEqual(["order 1"]);
    await fetchOnce(tools("order 1"), url(), { method: "POST", headers: { "Idempotency-Key": "mine" } });
    expect(provider.effects.slice(before)).toEqual(["order 1", "mine"]);
  });

  it("throws what asks to come again, and returns any other answer", async () => {
    const outcome = async (status: number) => {
      provider.status = status;
      try {
        return (await fetchOnce(tools("status"), url(), { method: "POST" })).status;
      } catch (error) {
        return error instanceof NotDone
          ? "not done"
          : (error as Error).message.replace(/^127\.0\.0\.1:\d+ /, "");
      } finally {
        provider.status = 200;
      }
    };
    expect(await outcome(402)).toBe(402);
    expect(await outcome(404)).toBe(404);
    expect(await outcome(429)).toBe("not done");
    for (const status of [408, 409, 425, 500, 503]) expect(await outcome(status)).toBe(`answered ${status}.`);
  });

  it("says that nothing happened where no connection was made", async () => {
    const gone = createServer();
    await new Promise<void>((resolve) => gone.listen(0, "127.0.0.1", resolve));
    const nobody = `http://127.0.0.1:${(gone.address() as AddressInfo).port}/secret`;
    await new Promise((resolve) => gone.close(resolve));
    const error = await fetchOnce(tools("x"), nobody).catch((one: unknown) => one);
    expect(error).toBeInstanceOf(NotDone);
    expect((error as Error).message).toMatch(/could not be reached \(ECONNREFUSED\)/);
    expect((error as Error).message).not.toContain("secret");
  });

  it("ends with the attempt, and with the caller's own signal", async () => {
    const controller = new AbortController();
    controller.abort(new Error("the lease was lost"));
    await expect(fetchOnce({ key: "k", signal: controller.signal }, url())).rejects.toThrow(
      "the lease was lost",
    );
    await expect(fetchOnce(tools("k"), url(), { signal: controller.signal })).rejects.toThrow(
      "the lease was lost",
    );
  });
});
