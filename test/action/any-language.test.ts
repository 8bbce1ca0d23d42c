import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once as event } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { createOnce, type Once } from "../../src/once.ts";
import { stepKey } from "../../src/step/key.ts";
import { describeWith, skipUnless, Unavailable } from "../support/postgres.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const page = readFileSync(join(root, "docs/any-language.md"), "utf8");
const run = promisify(execFile);
const example = (path: string): string => join(root, "examples", path);

/** The first of these programs that can do this; Unavailable where there is none. */
async function programThat(can: readonly string[], ...programs: string[]): Promise<string> {
  for (const program of programs) {
    if (
      await run(program, can).then(
        () => true,
        () => false,
      )
    )
      return program;
  }
  throw new Unavailable(`none of ${programs.join(", ")} can run with ${can.join(" ")}`);
}

const psql = () =>
  programThat(
    ["--version"],
    "psql",
    ...["18", "17", "16", "15", "14"].map((n) => `/usr/lib/postgresql/${n}/bin/psql`),
  );
// Debian's python3-psycopg2 belongs to Debian's Python.
const python = () => programThat(["-c", "import psycopg2"], "python3", "/usr/bin/python3");

describe("docs/any-language.md", () => {
  it("shows code that is in the examples, which are run below", () => {
    const files = ["sql", "python"].flatMap((folder) =>
      readdirSync(example(folder))
        .filter((name) => /\.(sql|py)$/.test(name))
        .map((name) => readFileSync(example(join(folder, name)), "utf8")),
    );
    const blocks = [...page.matchAll(/```(?:sql|python)\n([^]*?)```/g)].map(([, code]) => code!);
    expect(blocks.length).toBeGreaterThan(6);
    expect(blocks.filter((block) => !files.some((file) => file.includes(block)))).toEqual([]);
  });

  it("names files that exist", () => {
    const paths = [...page.matchAll(/\]\(\.\.\/([^)]+)\)/g)].map(([, path]) => path!);
    expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });
});

describeWith("oldest", "any language on one ledger", (fresh) => {
  let pool: pg.Pool;
  const ran: string[] = [];
  /** What a job in TypeScript does with its task; each test sets its own. */
  let work: (tools: {
    input: { name: string };
    step: <T>(name: string, fn: () => T) => Promise<T>;
  }) => unknown;
  let worker: Once<pg.PoolClient>;
  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: fresh().url });
    await createOnce({ database: pool }).engine.ready();
  });
  afterAll(() => pool?.end());

  const look = async (scope: string, key: string) =>
    (await pool.query("select onceward.look($1, $2) as task", [scope, key])).rows[0].task as Record<
      string,
      unknown
    >;
  const done = (scope: string, key: string) =>
    vi.waitFor(async () => expect(await look(scope, key)).toMatchObject({ state: "done" }), {
      timeout: 60_000,
      interval: 50,
    });
  const failed = (scope: string, key: string, reason: RegExp) =>
    vi.waitFor(async () => expect((await look(scope, key))["reason"]).toMatch(reason), {
      timeout: 60_000,
      interval: 50,
    });
  /** Runs a worker in TypeScript for this job while `during` goes on. */
  async function withWorker(job: string, during: () => Promise<unknown>): Promise<void> {
    worker = createOnce({ database: pool, pollMs: 50 });
    worker.job(job, (tools) => work(tools as never));
    await worker.start();
    try {
      await during();
    } finally {
      await worker.stop();
    }
  }

  describe("plain SQL", () => {
    beforeEach((context) => skipUnless(context, psql));
    const sql = async (file: string): Promise<string> => {
      const { stdout } = await run(await psql(), [
        fresh().url,
        "-X",
        "-q",
        "-t",
        "-A",
        "-v",
        "ON_ERROR_STOP=1",
        "-f",
        example(`sql/${file}`),
      ]);
      return stdout;
    };

    it("records a task that a worker in TypeScript runs, once", async () => {
      work = ({ input }) => void ran.push(`hello ${input.name}`);
      await withWorker("greet", async () => {
        expect(await sql("record.sql")).toContain('{"outcome": "recorded"}');
        await done("job/greet", "greet ann");
        expect(await sql("record.sql")).toContain('"duplicate"');
      });
      expect(ran.splice(0)).toEqual(["hello Ann"]);
    });

    it("records a task in a transaction with its own rows and effect keys", async () => {
      work = ({ input }) => void ran.push(`hello ${input.name}`);
      expect(await sql("transaction.sql")).toMatch(/true\n.*recorded/);
      expect(await sql("transaction.sql")).toMatch(/false\n.*duplicate/);
      await withWorker("greet", () => done("job/greet", "greet bob"));
      expect(ran.splice(0)).toEqual(["hello Bob"]);
      expect((await pool.query("select id from orders")).rows).toEqual([{ id: "order_1" }]);
    });

    it("runs a task that TypeScript enqueued, and does nothing where it is done", async () => {
      await createOnce({ database: pool }).engine.ledger.record({
        scope: "job/report",
        key: "report 2026-10",
        body: "null",
      });
      expect(await sql("work.sql")).toBe('claimed\n"saved"\n"renewed"\n"done"\n');
      expect(await look("job/report", "report 2026-10")).toMatchObject({
        state: "done",
        held_by: "psql",
        result: '{"orders": 1}',
      });
      expect(await sql("work.sql")).toBe("done\n");
    });

    it("goes on from a step that TypeScript has kept", async () => {
      const { verbs } = createOnce({ database: pool }).engine.ledger;
      await verbs.replay([{ scope: "job/report", key: "report 2026-10" }], { again: true });
      work = async ({ step }) => {
        await step("count", () => 42);
        throw new Error("the printer is out of paper");
      };
      await withWorker("report", () => failed("job/report", "report 2026-10", /paper/));
      await verbs.replay([{ scope: "job/report", key: "report 2026-10" }]);
      expect(await sql("work.sql")).toBe('claimed\n"renewed"\n"done"\n');
      expect(await look("job/report", "report 2026-10")).toMatchObject({ result: '{"orders": 42}' });
    });

    it("says that a task failed, and has it run again by TypeScript", async () => {
      await createOnce({ database: pool }).engine.ledger.record({
        scope: "job/report",
        key: "report 2026-11",
        body: '{"name":"x"}',
      });
      const said = await sql("fail.sql");
      expect(said).toContain('"waiting"');
      expect(said).toContain("the numbers are not in yet");
      expect(said).toContain('{"outcome": "replayed"}');
      work = ({ input }) => input.name;
      await withWorker("report", () => done("job/report", "report 2026-11"));
      expect(await look("job/report", "report 2026-11")).toMatchObject({ result: '"x"' });
    });
  });

  describe("Python", () => {
    beforeEach((context) => skipUnless(context, python));
    let child: ChildProcess | undefined;
    afterEach(() => void child?.kill("SIGKILL"));
    const env = () => ({ ...process.env, DATABASE_URL: fresh().url, PYTHONDONTWRITEBYTECODE: "1" });
    const startWorker = async (): Promise<void> => {
      child = spawn(await python(), [example("python/worker.py")], {
        env: env(),
        stdio: ["ignore", "ignore", "inherit"],
      });
    };
    const stopWorker = async (): Promise<void> => {
      const ended = event(child!, "exit");
      child!.kill("SIGTERM");
      expect(await ended).toEqual([0, null]);
    };
    const agent = async (order: string, amount: number): Promise<unknown> => {
      const { stdout } = await run(await python(), [example("python/agent.py"), order, String(amount)], {
        env: env(),
      });
      return JSON.parse(stdout);
    };

    it("runs jobs that TypeScript enqueued, with the same step keys and rows that commit with their step", async () => {
      const writer = createOnce({ database: pool });
      const texts = ["one", "one two", "one two three"];
      for (const text of texts) {
        await writer.engine.ledger.record({ scope: "job/score", key: text, body: JSON.stringify({ text }) });
      }
      await startWorker();
      for (const text of texts) await done("job/score", text);
      await stopWorker();
      for (const [i, text] of texts.entries()) {
        const key = stepKey({ scope: "job/score", key: text, generation: 1 }, "rate");
        const { result } = await look("job/score", text);
        expect(JSON.parse(result as string)).toEqual({ score: 10 * (i + 1), key });
      }
      const { rows } = await pool.query("select text, score from scores order by score");
      expect(rows).toEqual(texts.map((text, i) => ({ text, score: 10 * (i + 1) })));
    });

    it("goes on from a step that TypeScript has kept", async () => {
      const task = { scope: "job/score", key: "kept" };
      const { ledger } = createOnce({ database: pool }).engine;
      await ledger.recordAndClaim({ ...task, body: '{"text":"one"}' });
      await ledger.saveStep({ ...task, attempt: 1, name: "count", state: "done", value: "7" });
      await ledger.verbs.defer({ ...task, attempt: 1 });
      await startWorker();
      await done(task.scope, task.key);
      await stopWorker();
      expect((await look(task.scope, task.key))["result"]).toContain('"score": 70');
    });

    it("fails what cannot be done, and TypeScript finishes it from the step that Python has kept", async () => {
      const task = { scope: "job/score", key: "broken" };
      const { ledger } = createOnce({ database: pool }).engine;
      await ledger.record({ ...task, body: '{"text":"four words in all"}' });
      await pool.query("alter table scores rename column score to points");
      await startWorker();
      await failed(task.scope, task.key, /column "score"/);
      await stopWorker();
      expect((await look(task.scope, task.key))["steps"]).toMatchObject([
        { name: "count" },
        { name: "rate" },
      ]);
      work = async ({ step }) => {
        await step("count", () => ran.push("count again"));
        return [await step("rate", () => ran.push("rate again")), await step("write", () => "by TypeScript")];
      };
      await ledger.verbs.replay([task]);
      await withWorker("score", () => done(task.scope, task.key));
      expect(JSON.parse((await look(task.scope, task.key))["result"] as string)).toMatchObject([
        { score: 40 },
        "by TypeScript",
      ]);
      expect(ran.splice(0)).toEqual([]);
    });

    it("takes an action once, together with TypeScript", async () => {
      const once = createOnce({ database: pool });
      const input = (order: string, amount: number) => ({ order, amount });
      const first = await agent("order_1", 500);
      expect(first).toMatchObject({ charged: 500 });
      expect(await agent("order_1", 500)).toEqual(first);
      const never = () => Promise.reject(new Error("it was done"));
      expect(await once.run("charge order_1", never, { input: input("order_1", 500) })).toEqual(first);
      await expect(once.run("charge order_1", never, { input: input("order_1", 501) })).rejects.toMatchObject(
        { code: "input_conflict" },
      );

      const mine = await once.run("charge order_2", () => ({ charged: 7 }), { input: input("order_2", 7) });
      expect(await agent("order_2", 7)).toEqual(mine);
      await expect(agent("order_2", 8)).rejects.toThrow("this key was used with another input before");
    });
  });

  it("a call by HTTP, as supabase.rpc makes it, records what a worker in TypeScript runs", async () => {
    // Stands for PostgREST: one function with named arguments, in the schema that the client asks for.
    const server = createServer(async (request, response) => {
      let body = "";
      for await (const chunk of request) body += String(chunk);
      const verb = new URL(request.url!, "http://x").pathname.replace("/rest/v1/rpc/", "");
      const args = Object.entries(JSON.parse(body) as Record<string, string>);
      const places = args.map(([name], i) => `${pg.escapeIdentifier(name)} => $${i + 1}`).join(", ");
      const schema = String(request.headers["content-profile"]);
      const text = `select ${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(verb)}(${places}) as answer`;
      const { rows } = await pool.query(
        text,
        args.map(([, value]) => value),
      );
      response.setHeader("content-type", "application/json").end(JSON.stringify(rows[0].answer));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const folder = mkdtempSync(join(tmpdir(), "onceward-docs-"));
    try {
      vi.stubEnv("SUPABASE_URL", `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
      vi.stubEnv("SUPABASE_SECRET_KEY", "secret");
      const file = join(folder, "greet.ts");
      const code = /## supabase\.rpc, or HTTP\n[^]*?```ts\n([^]*?)```/.exec(page)![1]!;
      writeFileSync(file, code);
      const { greet } = (await import(file)) as { greet(name: string): Promise<string> };
      expect(await greet("Zoe")).toBe("recorded");
      expect(await greet("Zoe")).toBe("duplicate");
      work = ({ input }) => void ran.push(`hello ${input.name}`);
      await withWorker("greet", () => done("job/greet", "greet Zoe"));
      expect(ran.splice(0)).toEqual(["hello Zoe"]);
    } finally {
      vi.unstubAllEnvs();
      rmSync(folder, { recursive: true });
      await new Promise((resolve) => server.close(resolve));
    }
  });
});
