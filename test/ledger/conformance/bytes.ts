import { expect, it } from "vitest";
import type { Suite } from "../conformance.ts";
import { claimOne, freshLane } from "../support.ts";

const bodies: [string, string | Uint8Array][] = [
  ["JSON", JSON.stringify({ id: "evt_1", amount: 1999 })],
  [
    "JSON that jsonb would change",
    '{"n": 90071992547409931234, "a": 1, "a": 2,\n\t"b":1.50, "nul": "\\u0000"}',
  ],
  ["text that is no JSON", `it's "text", \\ {with} NULL and\r\n$1 'everything'`],
  ["text beyond ASCII", "ü 漢字 🙂 e\u0301 \u{10FFFF}"],
  ["an empty text", ""],
  ["the word null", "null"],
  ["text with a BOM in front", "\uFEFF{}"],
  ["text with a NUL", "a\0b"],
  ["bytes of UTF-8", Buffer.from('{"name": "Zoë"}')],
  ["bytes with a BOM in front", Buffer.from([0xef, 0xbb, 0xbf, 0x7b, 0x7d])],
  ["no bytes", Buffer.alloc(0)],
  ["bytes with a NUL", Buffer.from([0x7b, 0x00, 0x7d])],
  ["bytes that are no UTF-8", Buffer.from([0x7b, 0xff, 0xfe, 0xc0, 0xaf, 0xed, 0xa0, 0x80, 0x7d])],
  ["all bytes", Buffer.from(Array.from({ length: 256 }, (_, i) => i))],
  ["1 MB of text", '{"x":"\\\\"} é'.repeat(2 ** 20 / 12)],
  ["1 MB of bytes", Buffer.alloc(2 ** 20, Buffer.from([0, 0xff, 0x80, 1]))],
];

export function bytesSuite(suite: () => Suite): void {
  it.each(bodies)("%s come back as they were recorded", async (_, body) => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    await ledger.record({ scope, key: "k", body });
    const bytes = Buffer.from(body as string);
    const read = async (value: string | Uint8Array | null): Promise<boolean> =>
      value !== null && bytes.equals(Buffer.from(value as string));
    expect(await read(await verbs.payload({ scope, key: "k" }))).toBe(true);
    expect(await read((await claimOne(ledger, scope, "k")).body)).toBe(true);
    // Text that can be kept as text is text again, so that nobody has to decode it.
    if (typeof body === "string" && !body.includes("\0"))
      expect(await verbs.payload({ scope, key: "k" })).toBe(body);
  });

  it("a task without a body has JSON's null", async () => {
    const { ledger, verbs } = suite();
    const scope = freshLane();
    await ledger.record({ scope, key: "k" });
    expect(await verbs.payload({ scope, key: "k" })).toBe("null");
    expect((await claimOne(ledger, scope, "k")).body).toBe("null");
  });

  it("bodies of one batch stay with their tasks", async () => {
    const { verbs } = suite();
    const scope = freshLane();
    const tasks = bodies.slice(0, 14).map(([name, body]) => ({ scope, key: name, body }));
    await verbs.record(tasks);
    const { tasks: claimed } = await verbs.claimDue([scope], { max: 100, leaseMs: 60_000, worker: "w" });
    expect(claimed).toHaveLength(tasks.length);
    for (const { key, body } of claimed) {
      const recorded = tasks.find((task) => task.key === key)?.body;
      expect(Buffer.from(body as string)).toEqual(Buffer.from(recorded as string));
    }
  });
}
