import { describe, expect, it } from "vitest";
import { errorTable, OncewardError } from "../../src/errors.ts";
import {
  createReceiver,
  type Receipt,
  type Received,
  type ReceiverOptions,
} from "../../src/receive/receiver.ts";
import type { Identity, ProtocolReply, Source } from "../../src/source/source.ts";

const identity: Identity = { id: "evt_1", type: "thing.happened" };

function source(over: Partial<Source> = {}, identified: Identity | ProtocolReply = identity): Source {
  return { name: "acme", verify: () => undefined, identify: () => identified, parse: () => ({}), ...over };
}

function open(options: Partial<ReceiverOptions> = {}) {
  const receipts: Receipt[] = [];
  const taken: Uint8Array[] = [];
  const receiver = createReceiver({
    source: source(),
    maxBytes: 10,
    take: async (_identity, body) => {
      taken.push(body);
      return { outcome: "accepted", scope: "acme", key: "evt_1" };
    },
    log: (receipt) => void receipts.push(receipt),
    ...options,
  });
  const send = async (body: string | Uint8Array, headers: Record<string, string> = {}, method = "POST") => {
    const answer = await receiver.receive({
      method,
      body: Buffer.from(body),
      header: (name) => headers[name],
    });
    return { ...answer, said: answer.body === "" ? undefined : (JSON.parse(answer.body) as unknown) };
  };
  return { send, receipts, taken };
}

const errorOf = (code: keyof typeof errorTable, message = "why") => new OncewardError(code, message);

describe("the receiver", () => {
  it.each(["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "post", ""])(
    "takes POST alone, not %j",
    async (method) => {
      const { send, taken, receipts } = open();
      expect(await send("{}", {}, method)).toMatchObject({ status: 405, headers: { allow: "POST" } });
      expect(taken).toEqual([]);
      expect(receipts).toMatchObject([
        { source: "acme", outcome: "refused", code: "method_not_allowed", status: 405 },
      ]);
    },
  );

  it.each(["gzip", "br", "deflate", "gzip, identity", "GZIP"])(
    "refuses the encoding %s",
    async (encoding) => {
      const { send, taken } = open();
      const { status, said } = await send("{}", { "content-encoding": encoding });
      expect(status).toBe(415);
      expect(said).toMatchObject({ error: { code: "body_encoded" } });
      expect(taken).toEqual([]);
    },
  );

  it("takes a body of the limit, and refuses one of a byte more, and none", async () => {
    const { send, taken } = open();
    expect(await send("x".repeat(10), { "content-encoding": "identity" })).toMatchObject({ status: 200 });
    expect(await send("x".repeat(11))).toMatchObject({
      status: 413,
      said: { error: { code: "body_too_large" } },
    });
    expect(await send("")).toMatchObject({ status: 400, said: { error: { code: "body_missing" } } });
    expect(taken).toHaveLength(1);
  });

  it("verifies before anything else is done with the bytes", async () => {
    const order: string[] = [];
    const { send } = open({
      source: source({
        verify: () => void order.push("verify"),
        identify: () => {
          order.push("identify");
          return identity;
        },
      }),
      take: async () => {
        order.push("take");
        return { outcome: "done", scope: "acme", key: "evt_1" };
      },
    });
    expect(await send("{}")).toMatchObject({ status: 200, said: { outcome: "done" } });
    expect(order).toEqual(["verify", "identify", "take"]);
  });

  it("answers a refusal with its code, and with the status that the sender probes for", async () => {
    const verify = () => {
      throw errorOf("signature_mismatch");
    };
    const plain = open({ source: source({ verify }) });
    expect(await plain.send("{}")).toMatchObject({
      status: 400,
      said: { error: { code: "signature_mismatch", message: "why" } },
    });
    const probing = open({ source: source({ verify, refusalStatus: 401 }) });
    expect(await probing.send("{}")).toMatchObject({ status: 401 });
    expect([...plain.taken, ...probing.taken]).toEqual([]);
    const unreadable = open({
      source: source({
        refusalStatus: 401,
        identify: () => {
          throw errorOf("body_unreadable");
        },
      }),
    });
    expect(await unreadable.send("{}")).toMatchObject({ status: 400 });
    expect(unreadable.receipts).toMatchObject([{ outcome: "refused", code: "body_unreadable" }]);
  });

  it("takes nothing from a source whose verify is async: nobody would have waited for it", async () => {
    const forged = async () => {
      throw errorOf("signature_mismatch");
    };
    for (const over of [{ verify: forged }, { identify: forged }] as unknown as Partial<Source>[]) {
      const { send, taken, receipts } = open({ source: source(over) });
      expect(await send("{}")).toMatchObject({ status: 500, said: { error: { code: "config_invalid" } } });
      expect(taken).toEqual([]);
      expect(receipts).toMatchObject([{ outcome: "refused", code: "config_invalid" }]);
    }
  });

  it("replies to a ping or a challenge without recording anything", async () => {
    const reply = { status: 200, headers: { "content-type": "text/plain" }, body: '"pong"' };
    const { send, taken, receipts } = open({ source: source({}, { reply }) });
    expect(await send("{}")).toMatchObject(reply);
    expect(taken).toEqual([]);
    expect(receipts).toMatchObject([{ outcome: "replied", status: 200 }]);
  });

  it.each(["accepted", "done", "duplicate", "ignored", "parked", "conflict"] as const)(
    "says %s with 200",
    async (outcome) => {
      const { send, receipts } = open({ take: async () => ({ outcome, scope: "acme", key: "k" }) });
      expect(await send("{}")).toMatchObject({
        status: 200,
        headers: { "content-type": "application/json" },
        said: { outcome },
      });
      expect(receipts).toMatchObject([
        { outcome, status: 200, id: "evt_1", type: "thing.happened", scope: "acme", key: "k" },
      ]);
      expect(receipts[0]?.ms).toBeGreaterThanOrEqual(0);
    },
  );

  it.each([
    ["failed", 500, "handler_failed", undefined],
    ["busy", 409, "already_running", "1"],
  ] as const)("never says %s with a 2xx", async (outcome, status, code, retryAfter) => {
    const acknowledge = { status: 200, body: '"ok"' };
    const { send, receipts } = open({
      source: source({}, { ...identity, acknowledge }),
      take: async (): Promise<Received> => ({ outcome, scope: "acme", key: "k" }),
    });
    const answer = await send("{}");
    expect(answer).toMatchObject({ status, said: { error: { code } } });
    expect(answer.headers["retry-after"]).toBe(retryAfter);
    expect(receipts).toMatchObject([{ outcome, code, status }]);
  });

  it("acknowledges in the sender's own words", async () => {
    const acknowledge = { status: 202, headers: { "content-type": "text/plain" }, body: '"deferred"' };
    const { send } = open({ source: source({}, { ...identity, acknowledge }) });
    expect(await send("{}")).toMatchObject(acknowledge);
  });

  it.each([
    ["database_unavailable", 503, "5"],
    ["pool_exhausted", 503, "5"],
    ["schema_missing", 500, undefined],
  ] as const)("answers %s with %i, and says nothing of the inside", async (code, status, retryAfter) => {
    const { send, receipts } = open({
      take: async () => {
        throw errorOf(code, "db.internal:5432 said something");
      },
    });
    const answer = await send("{}");
    expect(answer).toMatchObject({ status, said: { error: { code } } });
    expect(answer.headers["retry-after"]).toBe(retryAfter);
    expect(answer.body).not.toContain("internal:5432");
    expect(receipts).toMatchObject([{ outcome: "error", code, status, id: "evt_1" }]);
  });

  it("answers 500 to what it does not know, and says nothing of it", async () => {
    const { send, receipts } = open({
      take: async () => {
        throw new Error("select * from secrets");
      },
    });
    const answer = await send("{}");
    expect(answer).toMatchObject({ status: 500, said: { error: { code: "internal" } } });
    expect(answer.body).not.toContain("secrets");
    expect(receipts).toMatchObject([{ outcome: "error", code: "internal" }]);
  });

  it("answers all the same when the log throws", async () => {
    const { send } = open({
      log: () => {
        throw new Error("the log is full");
      },
    });
    expect(await send("{}")).toMatchObject({ status: 200 });
  });

  it("answers all the same when the log is async and fails, and the process lives", async () => {
    const rejected: unknown[] = [];
    const notice = (error: unknown): void => void rejected.push(error);
    process.on("unhandledRejection", notice);
    const { send } = open({ log: () => Promise.reject(new Error("the log is away")) });
    expect(await send("{}")).toMatchObject({ status: 200 });
    // Node tells of it when it has nothing else to do.
    await new Promise((resolve) => setImmediate(resolve));
    process.off("unhandledRejection", notice);
    expect(rejected).toEqual([]);
  });

  it("answers without a log too", async () => {
    const { send } = open({ log: undefined });
    expect(await send("{}")).toMatchObject({ status: 200, said: { outcome: "accepted" } });
  });
});
