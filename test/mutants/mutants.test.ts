import { existsSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

interface Mutant {
  readonly name: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  readonly tests: readonly string[];
}

const mutants = JSON.parse(readFileSync(new URL("mutants.json", import.meta.url), "utf8")) as Mutant[];
const root = new URL("../../", import.meta.url);

it("there are at least thirty deliberate breakages, each with a name of its own", () => {
  expect(mutants.length).toBeGreaterThanOrEqual(30);
  expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
});

it.each(mutants)("can still break the code: $name", ({ file, find, replace, tests }) => {
  const text = readFileSync(new URL(file, root), "utf8");
  expect(text.split(find)).toHaveLength(2);
  expect(replace).not.toBe(find);
  expect(tests).not.toHaveLength(0);
  expect(tests.filter((test) => !existsSync(new URL(test, root)))).toEqual([]);
});

it("the table in the docs tells of these mutants", () => {
  const table = readFileSync(new URL("docs/proof.md", root), "utf8");
  for (const { name } of mutants) expect(table).toContain(`| ${name} |`.slice(0, -1));
});
