import { describe, expect, it } from "vitest";
import { lazily } from "../src/lazily.ts";

describe("lazily", () => {
  const withDouble = lazily<{ n: number; looks: number[] }, { double: number }>({
    double: (from) => {
      from.looks.push(from.n);
      return from.n * 2;
    },
  });

  it("makes a property when somebody looks at it, from what this object was made from", () => {
    const looks: number[] = [];
    const one = withDouble({ name: "one" }, { n: 1, looks });
    const two = withDouble({ name: "two" }, { n: 2, looks });
    expect(looks).toEqual([]);
    const { name, double } = two;
    expect([name, double, one.double]).toEqual(["two", 4, 2]);
    expect(looks).toEqual([2, 1]);
  });

  it("gives it to copies too, and shows nothing else", () => {
    const made = withDouble({ name: "three" }, { n: 3, looks: [] });
    expect({ ...made }).toEqual({ name: "three", double: 6 });
    expect(Object.keys(made)).toEqual(["name", "double"]);
    expect(JSON.stringify(made)).toBe('{"name":"three","double":6}');
  });
});
