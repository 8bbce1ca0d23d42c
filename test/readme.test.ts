/** README.md: its programs are run, what it names exists, and every promise has a test behind it. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Option } from "commander";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { makeProgram } from "../src/cli/program.ts";
import type { Once } from "../src/once.ts";
import { event, SECRET, signature } from "./handler/support.ts";
import { describeWith } from "./support/postgres.ts";
import { typecheck } from "./support/typecheck.ts";

const root = fileURLToPath(new URL("../", import.meta.url));
const page = readFileSync(join(root, "README.md"), "utf8");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  scripts: Record<string, string>;
  exports: Record<string, unknown>;
  peerDependencies: Record<string, string>;
};
const peers = manifest.peerDependencies;
const blocks = (language: string): string[] =>
  [...page.matchAll(new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``, "g"))].map((match) => match[1]!);
const section = (heading: string): string => page.split(`\n## ${heading}`)[1]!.split("\n## ")[0]!;
const commands = new Map(makeProgram().commands.map((command) => [command.name(), command]));

/** The command and its options, or what is wrong with it. */
function check(words: readonly string[]): void {
  const [name = "", ...rest] = words;
  expect([...commands.keys()]).toContain(name);
  const options = commands.get(name)!.options.map((option: Option) => option.long);
  for (const word of rest) if (/^--\w/.test(word)) expect(options).toContain(word);
}

describe("README.md", () => {
  it.each(["README.md", "examples/README.md"])("links to what is there: %s", (file) => {
    const text = readFileSync(join(root, file), "utf8");
    const targets = [...text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map((match) => match[1]!);
    expect(targets.filter((target) => !existsSync(join(root, dirname(file), target)))).toEqual([]);
  });

  it("names a test for every promise, and each exists", () => {
    const rows = section("What is promised")
      .split("\n")
      .filter((line) => line.startsWith("| "))
      .slice(2);
    expect(rows.length).toBeGreaterThan(15);
    const missing = rows.filter((row) => {
      const [, title, file] = /\[([^\]]+)\]\((test\/[^)]+)\)/.exec(row) ?? [];
      return !file || !readFileSync(join(root, file), "utf8").includes(`"${title}"`);
    });
    expect(missing).toEqual([]);
  });

  it("shows commands and scripts that exist, with their options", () => {
    for (const line of blocks("sh").flatMap((block) => block.trim().split("\n"))) {
      for (const command of line.replace(/ #.*$/, "").split("&&")) {
        const words = command.trim().split(/\s+/);
        if (words[0] === "npx") check(words.slice(words.indexOf("onceward") + 1));
        else if (words[1] === "install")
          expect(Object.keys(peers)).toEqual(expect.arrayContaining(words.slice(3)));
        else if (words[1] !== "ci") {
          const script = words[1] === "run" ? words[2]! : words[1]!;
          expect(Object.keys(manifest.scripts)).toContain(script);
          const own = /main\.js (\w+)/.exec(manifest.scripts[script]!)?.[1];
          if (own) check([own, ...words]);
        }
      }
    }
    for (const [, name] of page.matchAll(/`onceward (\w+)/g)) check([name!]);
  });

  it("says of every optional package what it is for", () => {
    const rows = section("Install")
      .split("\n")
      .filter((line) => line.startsWith("| `"));
    const named = rows.flatMap((row) =>
      [...row.split("|")[1]!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!),
    );
    expect(named.toSorted()).toEqual(Object.keys(peers).toSorted());
  });

  it("names what can be imported", () => {
    for (const [, subpath] of page.matchAll(/`onceward(\/[\w-]+)`/g))
      expect(Object.keys(manifest.exports)).toContain(`.${subpath}`);
  });
});

describeWith("newest", "the programs of README.md", (database) => {
  let folder = "";
  let client: pg.Client;
  let program: { server: Server; sent: { session: string; messageId?: string }[]; once?: Once } | undefined;

  /** What stands around the programs: their imports, a server, and a mailer that writes down what it is given. */
  const frame = (imports: string, code: string, exports: string): string => `
    import express from "express";
    ${imports}
    interface Mail { session: string; messageId?: string }
    export const sent: Mail[] = [];
    const mailer = { send: async (mail: Mail) => void sent.push(mail) };
    const app = express();
    ${code}
    export const server = app.listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    ${exports}
  `;

  beforeAll(async () => {
    mkdirSync(join(root, ".onceward"), { recursive: true });
    // Inside the project, so that the programs find their packages.
    folder = mkdtempSync(join(root, ".onceward/readme-"));
    vi.stubEnv("DATABASE_URL", database().url);
    vi.stubEnv("STRIPE_WEBHOOK_SECRET", SECRET);
    client = new pg.Client({ connectionString: database().url });
    await client.connect();
    // The first insert into orders fails, as if the process had died there; a sequence counts it all the same.
    await client.query(`
      create table webhook_events (id text primary key);
      create table orders (session text);
      create sequence deaths;
      create function die() returns trigger language plpgsql as $$ begin
        if nextval('deaths') = 1 then raise exception 'died'; end if;
        return new;
      end $$;
      create trigger die before insert on orders for each row execute function die()`);
    const [before, after] = blocks("ts");
    const outside = `const db = new pg.Pool({ connectionString: process.env.DATABASE_URL });
      const stripe = new Stripe("sk_test_1");
      const secret = process.env.STRIPE_WEBHOOK_SECRET!;`;
    writeFileSync(
      join(folder, "before.ts"),
      frame(
        `import pg from "pg"; import Stripe from "stripe"; ${outside}`,
        before!,
        "export const close = () => db.end();",
      ),
    );
    writeFileSync(join(folder, "after.ts"), frame("", after!, "export { once };"));
  });
  afterAll(async () => {
    await client?.end();
    vi.unstubAllEnvs();
    if (folder) rmSync(folder, { recursive: true });
  });

  async function deliver(session: string): Promise<number> {
    const body = JSON.stringify(
      event("checkout.session.completed", { id: `evt_${session}`, data: { object: { id: session } } }),
    );
    const { port } = program!.server.address() as AddressInfo;
    const { status } = await fetch(`http://127.0.0.1:${port}/stripe/webhook`, {
      method: "POST",
      body,
      headers: {
        "stripe-signature": signature(body),
        "content-type": "application/json",
        connection: "close",
      },
    });
    return status;
  }
  const orders = async (session: string): Promise<number | null> =>
    (await client.query("select from orders where session = $1", [session])).rowCount;

  it("are two, and have the right types", async () => {
    expect(blocks("ts")).toHaveLength(2);
    expect(await typecheck(folder, ["before.ts", "after.ts"])).toBe("");
  });

  it("before: an order is lost when the process dies after the first insert", async () => {
    const before = (await import(join(folder, "before.ts"))) as NonNullable<typeof program> & {
      close(): Promise<void>;
    };
    program = before;
    try {
      expect(await deliver("cs_lost")).toBe(500);
      expect(await deliver("cs_lost")).toBe(200);
      expect({ orders: await orders("cs_lost"), mails: before.sent }).toEqual({ orders: 0, mails: [] });
      // Where nothing goes wrong it works: that is why one does not notice.
      expect(await deliver("cs_good")).toBe(200);
      expect({ orders: await orders("cs_good"), mails: before.sent }).toEqual({
        orders: 1,
        mails: [{ session: "cs_good" }],
      });
    } finally {
      before.server.closeAllConnections();
      before.server.close();
      await before.close();
    }
  });

  it("after: one order and one mail, although the process died there", async () => {
    await client.query("alter sequence deaths restart");
    const after = (await import(join(folder, "after.ts"))) as Required<NonNullable<typeof program>>;
    program = after;
    try {
      expect(await deliver("cs_kept")).toBe(200);

      expect(await deliver("cs_kept")).toBe(200);
      await expect.poll(() => after.sent.length, { timeout: 60_000 }).toBe(1);
      expect(await deliver("cs_kept")).toBe(200);
      expect(after.sent).toEqual([{ session: "cs_kept", messageId: expect.stringMatching(/^[\w-]{32}$/) }]);
      expect(await orders("cs_kept")).toBe(1);
    } finally {
      after.server.closeAllConnections();
      after.server.close();
      await after.once.stop();
    }
  });
});
