import fc from "fast-check";
import { expect, it } from "vitest";
import { Line, type Standing } from "../../src/worker/line.ts";

class Member implements Standing<Member> {
  before: Member | undefined;
  after: Member | undefined;
}

it("is a set in the order in which its members came", () => {
  const operations = fc.array(fc.tuple(fc.boolean(), fc.nat(7)), { maxLength: 60 });
  fc.assert(
    fc.property(operations, (list) => {
      const members = Array.from({ length: 8 }, () => new Member());
      const line = new Line<Member>();
      const model = new Set<Member>();
      for (const [comes, i] of list) {
        const one = members[i]!;
        if (comes && !model.has(one)) {
          line.add(one);
          model.add(one);
        } else if (!comes) {
          line.delete(one);
          model.delete(one);
          expect([one.before, one.after]).toEqual([undefined, undefined]);
        }
        expect([...line]).toEqual([...model]);
        expect(line.isEmpty).toBe(model.size === 0);
      }
    }),
  );
});

it("lets whoever is just visited leave", () => {
  const members = Array.from({ length: 3 }, () => new Member());
  const line = new Line<Member>();
  for (const one of members) line.add(one);
  const visited: Member[] = [];
  for (const one of line) {
    visited.push(one);
    line.delete(one);
  }
  expect(visited).toEqual(members);
  expect(line.isEmpty).toBe(true);
});
