/** The one suite that every adapter passes: the same requests, over real HTTP. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { Agent, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { OncewardError } from "../../../src/errors.ts";
import { answerOf } from "../../../src/receive/answer.ts";
import type { Receiver } from "../../../src/receive/delivery.ts";
import { echo, maxBytes, sha256, type Echo } from "./echo.ts";
import { chunked, head, open, send, sendPieces, statusOf, untilClosed } from "./wire.ts";

export interface AdapterCase {
  readonly name: string;
  /**
   * Starts a server on a free port of 127.0.0.1 that mounts the receiver at `/hook`, and at `/parsed` behind
   * something that parses the body first.
   */
  start(receiver: Receiver): Promise<Server>;
  /** What the diagnosis at `/parsed` must say. */
  readonly advice: RegExp;
  /** The app parses JSON on its other routes: `/other` answers `{ "got": body.ping }`. */
  readonly parsesJson?: true;
  /** Something before the adapter reads the body, and decides when to stop. */
  readonly readsFirst?: true;
  /** Something before the adapter decompresses, so that compressed bodies are refused. */
  readonly decompresses?: true;
  /** What two headers `x-signature: a` and `b` are joined to, where it is not us who join. */
  readonly joinedHeaders?: string;
}

export function listen(server: Server): Promise<Server> {
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

/** Not `once`, which rejects when an error comes first. */
function closing(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.on("close", () => resolve()));
}

export function adapterSuite(adapter: AdapterCase): void {
  describe(adapter.name, () => {
    let receiver: Echo;
    let server: Server;
    let port: number;

    beforeEach(async () => {
      receiver = echo();
      server = await adapter.start(receiver);
      port = (server.address() as AddressInfo).port;
    });

    afterEach(async () => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    });

    const bodies: Record<string, Uint8Array> = {
      "plain JSON": Buffer.from('{"id":"evt_1"}'),
      "text that is not ASCII": Buffer.from('{"name":"Zoë 𝔘 — 名"}'),
      "a trailing newline": Buffer.from('{"id":"evt_1"}\r\n\n'),
      "spaces and key order": Buffer.from('{ "b" : 1.0,\t"a" : 2 , "b":3}'),
      "a byte order mark": Buffer.from('\ufeff{"id":"evt_1"}'),
      "bytes that are not UTF-8": Buffer.from([0x22, 0xff, 0xfe, 0xc3, 0x28, 0x22]),
      "NUL bytes": Buffer.from("\0a\0\0b\0"),
      "a form": Buffer.from("payload=%7B%22a%22%3A1%7D&x=1+2"),
      "zero bytes": new Uint8Array(0),
    };

    it.each(Object.keys(bodies))("hands on the bytes as they came: %s", async (name) => {
      for (const type of [
        "application/json",
        "application/x-www-form-urlencoded",
        "text/plain; charset=latin1",
      ]) {
        const reply = await send(port, { body: bodies[name]!, headers: { "content-type": type } });
        expect(reply.status).toBe(200);
        expect(JSON.parse(reply.body)).toEqual({ method: "POST", sha256: sha256(bodies[name]!) });
        const delivery = receiver.received.pop()!;
        expect(Buffer.from(delivery.body)).toEqual(Buffer.from(bodies[name]!));
        expect(delivery.header("content-type")).toBe(type);
      }
    });

    it("hands on a body without a content type", async () => {
      await send(port, { body: Buffer.from('{"id":1}') });
      expect(Buffer.from(receiver.received[0]!.body).toString()).toBe('{"id":1}');
      expect(receiver.received[0]!.header("content-type")).toBeUndefined();
    });

    it("hands on no bytes where a request has no body", async () => {
      const said = await sendPieces(port, [head("POST /hook HTTP/1.1", "Connection: close")]);
      expect(statusOf(said)).toBe(200);
      expect(receiver.received).toHaveLength(1);
      expect(receiver.received[0]!.body).toHaveLength(0);
    });

    it("puts a chunked body together", async () => {
      const body = randomBytes(5_000);
      const start = head("POST /hook HTTP/1.1", "Transfer-Encoding: chunked", "Connection: close");
      const said = await sendPieces(port, [start, ...chunked(body, 701)]);
      expect(statusOf(said)).toBe(200);
      expect(Buffer.from(receiver.received[0]!.body)).toEqual(body);
    });

    it("puts a body together that comes in pieces, head and all", async () => {
      const body = Buffer.from("zwölf Boxkämpfer jagen Viktor");
      const start = head("POST /hook HTTP/1.1", `Content-Length: ${body.length}`, "Connection: close");
      const whole = Buffer.concat([Buffer.from(start), body]);
      const said = await sendPieces(
        port,
        Array.from(whole, (byte) => Buffer.from([byte])),
      );
      expect(statusOf(said)).toBe(200);
      expect(Buffer.from(receiver.received[0]!.body)).toEqual(body);
    });

    it("never decompresses", async () => {
      const body = gzipSync(Buffer.alloc(50_000, "a"));
      const headers = { "content-encoding": "gzip", "content-type": "application/json" };
      const reply = await send(port, { body, headers });
      if (adapter.decompresses) {
        expect(reply.status).toBe(415);
        expect(JSON.parse(reply.body).error.code).toBe("body_encoded");
        expect(receiver.received).toHaveLength(0);
      } else {
        expect(Buffer.from(receiver.received[0]!.body)).toEqual(body);
        expect(receiver.received[0]!.header("content-encoding")).toBe("gzip");
      }
    });

    it.each(["identity", "Identity", ""])(
      "takes what is encoded as %j, which is not at all",
      async (encoding) => {
        const reply = await send(port, {
          body: Buffer.from("{}"),
          headers: { "content-encoding": encoding },
        });
        expect(reply.status).toBe(200);
        expect(Buffer.from(receiver.received[0]!.body).toString()).toBe("{}");
      },
    );

    it("takes exactly maxBytes", async () => {
      const body = randomBytes(maxBytes);
      expect((await send(port, { body })).status).toBe(200);
      expect(Buffer.from(receiver.received[0]!.body).equals(body)).toBe(true);

      const start = head("POST /hook HTTP/1.1", "Transfer-Encoding: chunked", "Connection: close");
      expect(statusOf(await sendPieces(port, [start, ...chunked(body, 60_000)]))).toBe(200);
      expect(Buffer.from(receiver.received[1]!.body).equals(body)).toBe(true);
    });

    it("refuses maxBytes and one more, declared or not", async () => {
      const body = randomBytes(maxBytes + 1);
      const reply = await send(port, { body });
      expect(reply.status).toBe(413);
      expect(JSON.parse(reply.body).error.code).toBe("body_too_large");

      const start = head("POST /hook HTTP/1.1", "Transfer-Encoding: chunked", "Connection: close");
      const said = await sendPieces(port, [start, ...chunked(body, 60_000)]);
      expect(statusOf(said)).toBe(413);
      expect(said).toContain('"code":"body_too_large"');
      expect(receiver.received).toHaveLength(0);
    });

    if (!adapter.readsFirst) {
      it("refuses 50 MB by what is declared, without waiting for them", async () => {
        const socket = await open(port);
        const answered = once(socket, "data");
        const closed = untilClosed(socket);
        socket.write(head("POST /hook HTTP/1.1", `Content-Length: ${50 * 1024 * 1024}`));
        expect(statusOf(String((await answered)[0]))).toBe(413);
        await closed;
        expect(receiver.received).toHaveLength(0);
      });
    }

    if (!adapter.readsFirst) {
      it("stops reading an upload that has no end", async () => {
        const socket = await open(port);
        const closed = untilClosed(socket);
        const piece = chunked(Buffer.alloc(16_384), 16_384)[0]!;
        const pour = (): void => {
          if (!socket.destroyed) socket.write(piece, (error) => error ?? setImmediate(pour));
        };
        socket.write(head("POST /hook HTTP/1.1", "Transfer-Encoding: chunked"));
        pour();
        await closed;
        expect(receiver.received).toHaveLength(0);
      });
    }

    it("keeps connections alive, and serves the next request after a 413", async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      try {
        expect(await send(port, { agent, body: Buffer.from("1") })).toMatchObject({ status: 200 });
        expect(await send(port, { agent, body: Buffer.from("2") })).toMatchObject({
          status: 200,
          reused: true,
        });
        expect((await send(port, { agent, body: Buffer.alloc(maxBytes + 1) })).status).toBe(413);
        expect((await send(port, { agent, body: Buffer.from("3") })).status).toBe(200);
        expect(await send(port, { agent, body: Buffer.from("4") })).toMatchObject({
          status: 200,
          reused: true,
        });
        expect(receiver.received.map(({ body }) => Buffer.from(body).toString())).toEqual([
          "1",
          "2",
          "3",
          "4",
        ]);
      } finally {
        agent.destroy();
      }
    });

    if (!adapter.readsFirst) {
      it("never takes what follows an unread body for a request", async () => {
        const hidden = head("POST /hook HTTP/1.1", "Content-Length: 0");
        const socket = await open(port);
        const said = untilClosed(socket);
        const declared = `Content-Length: ${maxBytes + hidden.length}`;
        socket.write(head("POST /hook HTTP/1.1", declared, "Connection: close") + hidden.repeat(3));
        expect((await said).match(/HTTP\/1\.1 \d{3}/g)).toEqual(["HTTP/1.1 413"]);
        expect(receiver.received).toHaveLength(0);
      });
    }

    it("joins headers that come several times", async () => {
      await send(port, { headers: { "x-signature": ["a", "b"] } });
      expect(receiver.received[0]!.header("x-signature")).toBe(adapter.joinedHeaders ?? "a, b");
    });

    it("finds headers whatever their case, and nothing under odd names", async () => {
      await send(port, { headers: { "X-Signature": "t=1,v1=ab" } });
      const { header } = receiver.received[0]!;
      expect(header("x-signature")).toBe("t=1,v1=ab");
      expect(header("X-SIGNATURE")).toBe("t=1,v1=ab");
      for (const name of ["", " ", "a b", "a\nb", "é", "constructor", "__proto__", "toString", "x-absent"]) {
        expect(header(name)).toBeUndefined();
      }
    });

    it.each(["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])(
      "hands on %s for the receiver to refuse",
      async (method) => {
        receiver.reply = () => answerOf(new OncewardError("method_not_allowed", "only POST is welcome"));
        const reply = await send(port, { method });
        expect(receiver.received.map((delivery) => [delivery.method, delivery.body.length])).toEqual([
          [method, 0],
        ]);
        expect(reply.status).toBe(405);
        expect(reply.headers["allow"]).toBe("POST");
        if (method !== "HEAD") expect(JSON.parse(reply.body).error.code).toBe("method_not_allowed");
      },
    );

    it("writes the receiver's answer as it is", async () => {
      receiver.reply = async () => ({
        status: 202,
        headers: { "content-type": "text/plain; charset=utf-8", "x-reason": "a, b" },
        body: "schön\n",
      });
      const reply = await send(port);
      expect(reply).toMatchObject({ status: 202, body: "schön\n" });
      expect(reply.headers).toMatchObject({
        "content-type": "text/plain; charset=utf-8",
        "x-reason": "a, b",
      });
      receiver.reply = () => ({ status: 204, headers: {}, body: "" });
      expect(await send(port)).toMatchObject({ status: 204, body: "" });
    });

    const failures: Record<string, () => never | Promise<never>> = {
      "throws at once": () => {
        throw new Error("connect ECONNREFUSED 10.0.0.7:5432");
      },
      rejects: () => Promise.reject(new TypeError("password=hunter2")),
      "rejects with no error": () => Promise.reject(undefined),
      "answers a status of 0": async () => ({ status: 0, headers: {}, body: "hunter2" }) as never,
      "answers a line break in a header": async () =>
        ({ status: 200, headers: { a: "b\r\nset-cookie: hunter2" }, body: "" }) as never,
      "answers nothing": async () => undefined as never,
    };

    it.each(Object.keys(failures))(
      "answers 500 and says nothing of the inside when the receiver %s",
      async (name) => {
        receiver.reply = failures[name]!;
        const reply = await send(port, { body: Buffer.from("{}") });
        expect(reply.status).toBe(500);
        expect(reply.headers["content-type"]).toMatch(/^application\/json/);
        expect(JSON.parse(reply.body)).toEqual({ error: { code: "internal" } });
        expect(JSON.stringify(reply.headers)).not.toContain("hunter2");
      },
    );

    it("answers with the status and code of our own errors, and when to come back", async () => {
      receiver.reply = () =>
        Promise.reject(new OncewardError("database_unavailable", "10.0.0.7:5432 is away"));
      const reply = await send(port, { body: Buffer.from("{}") });
      expect(reply.status).toBe(503);
      expect(reply.headers["retry-after"]).toMatch(/^\d+$/);
      expect(JSON.parse(reply.body)).toEqual({ error: { code: "database_unavailable" } });
    });

    it("says how to mount when the body was parsed first", async () => {
      const headers = { "content-type": "application/json" };
      const reply = await send(port, { path: "/parsed", body: Buffer.from('{"id":1}'), headers });
      expect(reply.status).toBe(500);
      const { error } = JSON.parse(reply.body);
      expect(error.code).toBe("body_parsed");
      expect(error.message).toMatch(/^the body was parsed before it reached us: /);
      expect(error.message).toMatch(adapter.advice);
      expect(receiver.received).toHaveLength(0);
    });

    if (adapter.parsesJson) {
      it("leaves the JSON of other routes alone", async () => {
        const headers = { "content-type": "application/json" };
        const body = Buffer.from('{"ping":"pong"}');
        expect(await send(port, { path: "/other", body, headers })).toMatchObject({ body: '{"got":"pong"}' });
        expect((await send(port, { body, headers })).status).toBe(200);
        expect(await send(port, { path: "/other", body, headers })).toMatchObject({ body: '{"got":"pong"}' });
      });
    }

    const uploads = {
      declared: head("POST /hook HTTP/1.1", "Content-Length: 1000") + "x".repeat(500),
      chunked: head("POST /hook HTTP/1.1", "Transfer-Encoding: chunked") + `1f4\r\n${"x".repeat(500)}\r\n`,
    };
    const ways: Record<string, (socket: Socket) => void> = {
      "cut off": (socket) => void socket.destroy(),
      reset: (socket) => void socket.resetAndDestroy(),
      "ended early": (socket) => void socket.end(),
    };
    const aborts = Object.keys(uploads).flatMap((upload) =>
      Object.keys(ways).map((way) => [upload, way] as const),
    );

    it.each(aborts)("receives nothing of a %s upload that is %s, and goes on", async (upload, way) => {
      const connected = once(server, "connection") as Promise<[Socket]>;
      const requested = once(server, "request");
      const socket = await open(port);
      const said = untilClosed(socket);
      const [served] = await connected;
      const gone = closing(served);
      socket.write(uploads[upload as keyof typeof uploads]);
      await requested;
      ways[way]!(socket);
      await Promise.all([gone, said]);
      expect(receiver.received).toHaveLength(0);
      const reply = await send(port, { body: Buffer.from("next") });
      expect(reply.status).toBe(200);
      expect(receiver.received.map(({ body }) => Buffer.from(body).toString())).toEqual(["next"]);
    });

    it("goes on when the sender leaves before the answer", async () => {
      let leave = (): void => {};
      receiver.reply = async () => {
        leave();
        await left;
        return { status: 200, headers: {}, body: "too late" };
      };
      const connected = once(server, "connection") as Promise<[Socket]>;
      const socket = await open(port);
      const [served] = await connected;
      const left = closing(served);
      leave = () => void socket.destroy();
      socket.write(head("POST /hook HTTP/1.1", "Content-Length: 2") + "{}");
      await left;
      receiver.reply = () => ({ status: 200, headers: {}, body: "in time" });
      expect((await send(port)).body).toBe("in time");
    });

    it("keeps 200 bodies at once apart", async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 40 });
      try {
        const sent = Array.from({ length: 200 }, (_, at) => randomBytes(1 + ((at * 7919) % 70_000)));
        const replies = await Promise.all(sent.map((body) => send(port, { agent, body })));
        expect(replies.map(({ body }) => JSON.parse(body).sha256)).toEqual(sent.map(sha256));
      } finally {
        agent.destroy();
      }
    });
  });
}
