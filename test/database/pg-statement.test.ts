import { Duplex } from "node:stream";
import fc from "fast-check";
import pg from "pg";
import { describe, expect, it } from "vitest";
import { textArrayBinary } from "../../src/database/array.ts";
import type { Param, Texts } from "../../src/database/database.ts";
import { pgDatabase } from "../../src/database/pg.ts";
import { sendable, statementClass } from "../../src/database/pg-statement.ts";
import { describeWith } from "../support/postgres.ts";

const types = {};
const callback = (): void => {};

/** A client of the real `pg` whose server is a list of what was written to it. */
function clientOf(Client: typeof pg.Client = pg.Client) {
  const written: Buffer[] = [];
  const stream = new Duplex({
    read() {},
    write(bytes: Buffer, _encoding, done) {
      written.push(bytes);
      done();
    },
  });
  const client = new Client({ stream: () => stream as never }) as pg.Client & { connection: pg.Connection };
  return { client, written, stream };
}

function send(client: pg.Client & { connection: pg.Connection }, text: string, values: readonly Param[]) {
  const Statement = statementClass(client)!;
  const statement = new Statement({ text, values, types, callback }) as pg.Query & {
    handleReadyForQuery(connection: pg.Connection): void;
  };
  statement.submit(client.connection);
  return { answered: () => statement.handleReadyForQuery(client.connection) };
}

const statement = fc.string({ unit: "grapheme", minLength: 1 });
const word = fc.string({ unit: "grapheme" });
const texts: fc.Arbitrary<Texts> = fc.array(
  fc.oneof(word, fc.constant(null), fc.uint8Array({ maxLength: 9 })),
);
const param: fc.Arbitrary<Param> = fc.oneof(word, fc.boolean(), fc.constant(null), fc.uint8Array(), texts);

describe("a statement of ours", () => {
  it("is sent as the bytes that pg would send, in one piece", () => {
    fc.assert(
      fc.property(statement, fc.array(param, { minLength: 1, maxLength: 6 }), (text, values) => {
        const { client, written } = clientOf();
        send(client, text, values);
        expect(written).toHaveLength(1);
        const [ours] = written.splice(0);
        new pg.Query({ text, values: sendable(values) } as pg.QueryConfig).submit(client.connection);
        expect(ours!.equals(Buffer.concat(written))).toBe(true);
      }),
    );
  });

  it("says the same where a tracer has copied it into a statement of pg", () => {
    const { client, written } = clientOf();
    const Statement = statementClass(client)!;
    const values = [["a", null, Buffer.from("bytes")], "b", null, true];
    const statement = new Statement({ text: "select 1", values, types, callback }) as pg.Query;
    statement.submit(client.connection);
    const [ours] = written.splice(0);
    new pg.Query(Object.assign({}, statement) as never).submit(client.connection);
    expect(ours!.equals(Buffer.concat(written))).toBe(true);
  });

  it("has a room of its own until it was answered, and leaves that to the next one", () => {
    const { client, written } = clientOf();
    const large = (letter: string): Texts => [letter.repeat(50_000)];
    const first = send(client, "select $1", [large("a")]);
    send(client, "select $1", [large("b")]);
    expect(written[0]!.buffer).not.toBe(written[1]!.buffer);
    first.answered();
    first.answered();
    send(client, "select $1", [large("c")]);
    send(client, "select $1", [large("d")]);
    expect(written[2]!.buffer).toBe(written[0]!.buffer);
    expect(written[3]!.buffer).not.toBe(written[2]!.buffer);
    expect(written[1]!.includes("b".repeat(50_000))).toBe(true);
    expect(written[2]!.includes("c".repeat(50_000))).toBe(true);
  });

  it("never takes room that it shares with other buffers", () => {
    const { client, written } = clientOf();
    send(client, "select $1", [["small"]]).answered();
    const beside = new Uint8Array(written[0]!.buffer);
    const before = Buffer.from(beside);
    send(client, "select $1", [["d".repeat(50_000)]]);
    expect(beside).toEqual(new Uint8Array(before));
  });

  it("is not written to a connection that is gone", () => {
    const { client, written, stream } = clientOf();
    stream.on("error", () => {}).destroy();
    send(client, "select $1", ["late"]);
    expect(written).toEqual([]);
  });
});

describeWith("newest", "a pg that we do not know", (fresh) => {
  it("gets arrays in a form that it can send", async () => {
    class Other extends pg.Client {
      static Query = undefined;
    }
    expect(statementClass(clientOf(Other as never).client)).toBeUndefined();
    const pool = new pg.Pool({ connectionString: fresh().url, Client: Other as never });
    try {
      const database = pgDatabase(pool);
      const values = ["a", null, 'b"\\'];
      const { rows } = await database.query("select to_jsonb($1::text[]) as values, $2::text as word", [
        values,
        "w",
      ]);
      expect(rows).toEqual([{ values, word: "w" }]);
    } finally {
      await pool.end();
    }
  });

  it("means what the bytes mean that we send", () => {
    expect(sendable([["a"], "b", null, true])).toEqual([textArrayBinary(["a"]), "b", null, true]);
  });
});
