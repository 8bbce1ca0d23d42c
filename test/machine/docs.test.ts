import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { createOnce } from "../../src/once.ts";
import type { ConnectedSource } from "../../src/handler/source.ts";
import { stripe, type StripeEvents } from "../../src/source/stripe.ts";
import { deliveryOf, event, SECRET } from "../handler/support.ts";
import { describeWith } from "../support/postgres.ts";

type Once = ReturnType<typeof createOnce>;
interface Page {
  once: Once;
  signUp(user: string): Promise<string>;
  handle(billing: ConnectedSource<StripeEvents, unknown>): void;
  look(): Promise<{ standing: unknown; history: unknown }>;
}

const root = fileURLToPath(new URL("../../", import.meta.url));
const page = readFileSync(join(root, "docs/machines.md"), "utf8");
const [program, handler, looking] = [...page.matchAll(/```ts\n([^]*?)```/g)].map(([, code]) => code) as [
  string,
  string,
  string,
];
const [, sql] = /```sql\n([^]*?)```/.exec(page) as unknown as [string, string];

/** The blocks of the page as one program: only the name of the package is replaced. */
const code = `${program.replace('"onceward"', JSON.stringify(join(root, "src/index.ts")))}
export function handle(billing) {
${handler}
}
export async function look() {
${looking}
  return { standing, history };
}`;

describeWith("newest", "docs/machines.md", (database) => {
  const folder = mkdtempSync(join(tmpdir(), "onceward-docs-"));
  let shown: Page | undefined;
  beforeAll(async () => {
    vi.stubEnv("DATABASE_URL", database().url);
    writeFileSync(join(folder, "page.ts"), code);
    shown = (await import(join(folder, "page.ts"))) as Page;
  });
  afterAll(async () => {
    await shown?.once.stop();
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  it("shows programs that do what it says", async () => {
    const { once, signUp, handle, look } = shown!;
    const billing = once.source(stripe({ secrets: SECRET }), { answer: "inline" });
    handle(billing);
    await once.database.query("create table trials (subject text primary key)");
    expect(await look()).toMatchObject({ standing: { state: "new", version: 0 }, history: [] });
    expect(await signUp("user_1")).toBe("Welcome!");
    expect(await signUp("user_1")).toBe("You are running already.");
    expect((await once.database.query("select subject from trials")).rows).toEqual([{ subject: "user_1" }]);
    const completed = event("checkout.session.completed", {
      data: { object: { id: "cs_1", client_reference_id: "user_1" } },
    });
    expect(await billing.receive(deliveryOf(JSON.stringify(completed)))).toMatchObject({ status: 200 });
    expect(await look()).toMatchObject({
      standing: { state: "subscribed", version: 2, timers: [] },
      history: [
        { move: "begin" },
        { move: "subscribe", cause: expect.stringContaining("stripe ") as string },
      ],
    });
  });

  it("shows a move in SQL whose timers are tasks", async () => {
    const { once } = shown!;
    const [statement, , answer] = /([^]*?;)\n(-- )(.*)/.exec(sql)!.slice(1) as [string, string, string];
    await once.engine.ready();
    const { rows } = await once.database.query(statement);
    expect(Object.values(rows[0]!)).toEqual([JSON.parse(answer)]);
    const { rows: tasks } = await once.database.query(
      "select key from onceward.task where scope = 'machine/trial' and state = 'waiting' and strpos(key, 'user_2') = 1 order by due_at",
    );
    expect(tasks.map((task) => task["key"])).toEqual([
      "user_2 v1 remind after 10 days",
      "user_2 v1 expire after 14 days",
    ]);
  });
});
