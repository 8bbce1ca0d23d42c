import { expect, it } from "vitest";
import { giveBack, textArrayBinary } from "../../src/database/array.ts";

const large = (letter: string): string => letter.repeat(50_000);

it("the room of a large parameter is used again once its statement was answered, and not before", () => {
  const first = textArrayBinary([large("a")]);
  const second = textArrayBinary([large("b")]);
  expect(second.buffer).not.toBe(first.buffer);
  expect(first.toString()).toContain(large("a"));
  giveBack([first, "text", null]);
  const third = textArrayBinary([large("c").slice(1)]);
  expect(third.buffer).toBe(first.buffer);
  expect(third.toString()).toContain(large("c").slice(1));
  expect(third.length).toBe(first.length - 1);
  expect(second.toString()).toContain(large("b"));
});

it("room that is shared with other buffers is never taken", () => {
  const size = Buffer.poolSize;
  Buffer.poolSize = 256 * 1024;
  try {
    // Used up, so that the next small one begins a pool of this size.
    while (Buffer.allocUnsafe(1_000).buffer.byteLength < Buffer.poolSize);
    const small = textArrayBinary(["small"]);
    const mine = Buffer.allocUnsafe(1_000).fill(7);
    expect(mine.buffer).toBe(small.buffer);
    giveBack([small]);
    textArrayBinary([large("d")]);
    expect(mine.every((byte) => byte === 7)).toBe(true);
  } finally {
    Buffer.poolSize = size;
  }
});
