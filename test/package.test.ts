/** What npm would publish: small, whole, and without dependencies. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

interface Packed {
  readonly files: readonly { readonly path: string; readonly size: number }[];
}

const manifest = JSON.parse(readFileSync("package.json", "utf8")) as {
  dependencies?: object;
  peerDependencies: Record<string, string>;
};

describe("the package", () => {
  it("is below 1 MB installed, without the embedded database", () => {
    const text = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
      encoding: "utf8",
    });
    const [{ files }] = JSON.parse(text) as [Packed];
    const library = files.filter(({ path }) => !path.startsWith("dist/embedded/"));
    expect(library.map(({ path }) => path)).toContain("dist/index.js");
    expect(library.reduce((sum, { size }) => sum + size, 0)).toBeLessThan(1_000_000);
  });

  it("needs nothing but Node and what its users bring", () => {
    expect(manifest.dependencies).toBeUndefined();
    const theirs = new Set(Object.keys(manifest.peerDependencies));
    const missing = readdirSync("dist", { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".js"))
      .flatMap((file) => importsOf(readFileSync(join("dist", file), "utf8")))
      .filter((name) => !/^(node:|\.)/.test(name) && !theirs.has(packageOf(name)));
    expect([...new Set(missing)]).toEqual([]);
  });

  it("has the licences of what it includes", () => {
    const text = readFileSync("dist/LICENSES.txt", "utf8");
    expect(text).toMatch(/^commander \d/m);
    expect(text).toMatch(/^croner \d/m);
  });
});

function importsOf(code: string): string[] {
  const imports = [...code.matchAll(/^(?:import|export)\b[^;'"]*?["']([^"'\n]+)["'];?$/gm)];
  const lazy = [...code.matchAll(/\bimport\(\s*["']([^"'\n]+)["']\s*\)/g)];
  return [...imports, ...lazy].map(([, name]) => name as string);
}

function packageOf(name: string): string {
  return name.split("/", name.startsWith("@") ? 2 : 1).join("/");
}
