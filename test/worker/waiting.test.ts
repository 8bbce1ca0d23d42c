import { describe, expect, it } from "vitest";
import type { Lane } from "../../src/worker/lane.ts";
import { Lease } from "../../src/worker/lease.ts";
import { Waiting } from "../../src/worker/waiting.ts";

const lane = (name: string): Lane => ({ name, run: async () => ({ finish: "complete" }) });
const [quick, slow] = [lane("quick"), lane("slow")];

function place(of: Lane, key: string, heldAt: number) {
  const lease = new Lease({ scope: of.name, key, attempt: 1 }, { steady: 0, wall: 0 });
  return {
    lane: of,
    key,
    lease: Object.assign(lease, { heldAt }),
    before: undefined,
    after: undefined,
  };
}

describe("tasks that wait for a place", () => {
  const lined = () => {
    const waiting = new Waiting<ReturnType<typeof place>>();
    const all = [place(slow, "a", 1), place(quick, "b", 2), place(slow, "c", 3), place(quick, "d", 4)];
    for (const one of all) waiting.add(one);
    return { waiting, all };
  };

  it("start in the order in which they came, whatever their lane", () => {
    const { waiting } = lined();
    const order: string[] = [];
    for (let next = waiting.next(() => true); next; next = waiting.next(() => true)) {
      order.push(next.key);
      waiting.delete(next);
    }
    expect(order).toEqual(["a", "b", "c", "d"]);
  });

  it("do not stand in the way of another lane while their own is full", () => {
    const { waiting, all } = lined();
    expect(waiting.next(({ name }) => name === "quick")?.key).toBe("b");
    waiting.delete(all[1]!);
    expect(waiting.next(({ name }) => name === "quick")?.key).toBe("d");
    expect(waiting.next(() => false)).toBeUndefined();
  });

  it("are asked for their age lane by lane, and may leave meanwhile", () => {
    const { waiting } = lined();
    for (const one of waiting.while(({ lease }) => lease.heldAt < 3)) waiting.delete(one);
    expect(Array.from(waiting, ({ key }) => key)).toEqual(["c", "d"]);
  });
});
