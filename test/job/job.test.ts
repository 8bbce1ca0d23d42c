import type { StandardSchemaV1 } from "@standard-schema/spec";
import * as v from "valibot";
import { afterEach, describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { defineJob } from "../../src/job/define.ts";
import { enqueue } from "../../src/job/enqueue.ts";
import type { Job, JobTools } from "../../src/job/job.ts";
import type { Schema } from "../../src/job/schema.ts";
import type { EngineOptions } from "../../src/worker/engine.ts";
import { describeWith } from "../support/postgres.ts";
import { countOf, gate, noPoll } from "../worker/support.ts";
import { type JobEngine, jobEngine } from "./support.ts";

describeWith("newest", "a job", (database) => {
  const open: JobEngine[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close();
  });
  const make = (options?: EngineOptions): JobEngine => {
    const made = jobEngine(database().url, options);
    open.push(made);
    return made;
  };
  const look = (one: JobEngine, job: Job, key: string) =>
    one.engine.ledger.verbs.look({ scope: job.scope, key });

  it("gets its input, and its result is kept", async () => {
    const one = make();
    const add = defineJob(
      one.engine,
      "add",
      ({ input }: { input: { a: number; b: number } }) => input.a + input.b,
    );
    await one.engine.start();
    const { key, outcome, scope } = await enqueue(one.engine, add, { a: 1, b: 2 });
    expect({ outcome, scope }).toEqual({ outcome: "enqueued", scope: "job/add" });
    await one.history.ended(1);
    expect(await look(one, add, key)).toMatchObject({ state: "done", result: "3" });
  });

  it("keeps no result where there is none", async () => {
    const one = make();
    const nothing = defineJob(one.engine, "nothing", () => undefined);
    await one.engine.start();
    const { key } = await enqueue(one.engine, nothing, undefined);
    await one.history.ended(1);
    expect(await look(one, nothing, key)).toMatchObject({ state: "done", result: null });
  });

  it.each([
    ["undefined", undefined],
    ["null", null],
    ["text", 'a "quoted" \u0000 \ud800 text'],
    ["a Date, a Map, bytes", { at: new Date(0), map: new Map([[1, 2n]]), bytes: new Uint8Array([0, 255]) }],
    ["what looks like our own marks", { $onceward: "Date", value: "x", toJSON: 1 }],
  ])("gets its input as it was given: %s", async (name, input) => {
    const one = make();
    const got = gate<unknown>();
    const job = defineJob(one.engine, `as-given-${name.replaceAll(/\W/g, "")}`, (tools) =>
      got.open(tools.input),
    );
    await one.engine.start();
    await enqueue(one.engine, job, input);
    expect(await got.promise).toEqual(input);
  });

  it("gets its input as it was when it was enqueued, and not what became of it since", async () => {
    const one = make();
    const got: unknown[] = [];
    const work = ({ input }: { input: { list: number[] } }): void => {
      got.push(structuredClone(input));
      input.list.push(3);
      if (got.length === 1) throw new Error("once more");
    };
    const job = defineJob(one.engine, "snapshot", { backoff: { baseMs: 1, capMs: 1 } }, work);
    await one.engine.start();
    const input = { list: [1] };
    const enqueued = enqueue(one.engine, job, input);
    input.list.push(2);
    await enqueued;
    await one.history.ended(2);
    expect(got).toEqual([{ list: [1] }, { list: [1] }]);
    expect(input).toEqual({ list: [1, 2] });
  });

  it("refuses an input that nothing can keep, and says nothing of it", async () => {
    const one = make();
    const job = defineJob(one.engine, "refuse", () => undefined);
    const itself: Record<string, unknown> = { secret: "hunter2" };
    itself["itself"] = itself;
    for (const input of [itself, { f: () => undefined }, Symbol("s")]) {
      const refused = enqueue(one.engine, job, input);
      await expect(refused).rejects.toMatchObject({ code: "input_invalid" });
      await expect(refused).rejects.not.toThrow(/hunter2/);
    }
  });

  describe("with a schema", () => {
    const zod = z.object({ to: z.email(), at: z.date(), tries: z.number().default(3) });
    const valibot = v.object({
      to: v.pipe(v.string(), v.email()),
      at: v.date(),
      tries: v.optional(v.number(), 3),
    });
    /** One written by hand, which answers later. */
    const own: StandardSchemaV1<
      { to: string; at: Date; tries?: number },
      { to: string; at: Date; tries: number }
    > = {
      "~standard": {
        version: 1,
        vendor: "own",
        async validate(value) {
          const { to, at, tries = 3 } = value as { to: string; at: Date; tries?: number };
          const issues = [
            ...(to.includes("@") ? [] : [{ message: `"${to}" is no address`, path: ["to"] }]),
            ...(at instanceof Date ? [] : [{ message: "no date", path: [{ key: "at" }] }]),
          ];
          return issues.length > 0 ? { issues } : { value: { to, at, tries } };
        },
      },
    };

    it.each([
      ["zod", zod as Schema],
      ["valibot", valibot as Schema],
      ["own", own as Schema],
    ])(
      "of any library runs what fits, and refuses the rest without repeating it: %s",
      async (name, input) => {
        const one = make();
        const got = gate<unknown>();
        const job = defineJob(one.engine, `schema-${name}`, { input }, (tools) => got.open(tools.input));
        await one.engine.start();
        await enqueue(one.engine, job, { to: "a@example.com", at: new Date(1) });
        expect(await got.promise).toEqual({ to: "a@example.com", at: new Date(1), tries: 3 });
        const refused = enqueue(one.engine, job, { to: "personal datum", at: "tomorrow" });
        await expect(refused).rejects.toMatchObject({
          code: "input_invalid",
          message: expect.stringMatching(/ at to, at\.$/),
        });
        expect(await countOf(one.watch.database, `scope = '${job.scope}'`)).toBe(1);
      },
    );

    it("is dead at once when what was enqueued by older code no longer fits", async () => {
      const one = make();
      const job = defineJob(one.engine, "older", { input: zod }, () => undefined);
      await one.engine.start();
      await one.engine.offer({ scope: job.scope, key: "1", body: '{"to":"personal datum"}' });
      await one.engine.offer({ scope: job.scope, key: "2", body: "{no json" });
      await one.history.ended(2);
      expect(await look(one, job, "1")).toMatchObject({
        state: "dead",
        reason: expect.stringMatching(/schema of job older at to, at/),
      });
      expect(await look(one, job, "2")).toMatchObject({
        state: "dead",
        reason: expect.stringMatching(/JSON/),
      });
    });

    it("says the types", () => {
      const one = make();
      const job = defineJob(
        one.engine,
        "types",
        { input: zod, key: ({ tries }) => String(tries.toFixed()) },
        ({ input, step }) => {
          expectTypeOf(input).toEqualTypeOf<{ to: string; at: Date; tries: number }>();
          expectTypeOf(step.transaction).parameter(1).parameter(0).toHaveProperty("query");
          return input.tries;
        },
      );
      expectTypeOf(job).toEqualTypeOf<Job<{ to: string; at: Date; tries?: number | undefined }, number>>();
      const byAnnotation = defineJob(
        one.engine,
        "types-2",
        { priority: 1 },
        async ({ input }: JobTools<{ id: string }>) => input.id,
      );
      expectTypeOf(byAnnotation).toEqualTypeOf<Job<{ id: string }, string>>();
      const types = (): void => {
        // @ts-expect-error -- `to` is missing
        void enqueue(one.engine, job, { at: new Date() });
        // @ts-expect-error -- no number
        void enqueue(one.engine, byAnnotation, { id: 1 });
        // @ts-expect-error -- an input is wanted
        void enqueue(one.engine, byAnnotation);
        void enqueue(one.engine, { name: "elsewhere" }, { any: "thing" });
      };
      expect(types).toBeTypeOf("function");
    });
  });

  it("whose schema throws is tried again, and what it said is kept nowhere", async () => {
    const made = jobEngine(database().url);
    open.push(made);
    let looks = 0;
    const schema: Schema<{ email: string }, { email: string }> = {
      "~standard": {
        version: 1,
        vendor: "test",
        validate: async (value) => {
          if (++looks === 2) throw new Error(`cut off while looking up ${JSON.stringify(value)}`);
          return { value: value as { email: string } };
        },
      },
    };
    const job = defineJob(
      made.engine,
      "lookup",
      { input: schema, backoff: { baseMs: 1, capMs: 1 } },
      () => 1,
    );
    await made.engine.start();
    const { scope, key } = await enqueue(made.engine, job, { email: "ann@example.com" });
    await made.history.ended(2);
    const look = await made.engine.ledger.verbs.look({ scope, key });
    expect(look).toMatchObject({ state: "done", attempt: 2 });
    expect(JSON.stringify(look)).not.toContain("example.com");
  });

  it("whose result cannot be kept is dead, since trying again would repeat what it did", async () => {
    const one = make();
    let runs = 0;
    const job = defineJob(one.engine, "unkept", () => {
      runs++;
      return () => undefined;
    });
    await one.engine.start();
    const { key } = await enqueue(one.engine, job, undefined);
    await one.history.ended(1);
    expect(await look(one, job, key)).toMatchObject({ state: "dead" });
    expect(runs).toBe(1);
  });

  it("is tried again as its definition says, and then dead", async () => {
    const one = make();
    const attempts: number[] = [];
    const job = defineJob(
      one.engine,
      "tries",
      { maxAttempts: 3, backoff: { baseMs: 1, capMs: 1 } },
      ({ attempt }) => {
        attempts.push(attempt);
        throw new Error("no");
      },
    );
    await one.engine.start();
    const { key } = await enqueue(one.engine, job, undefined);
    await one.history.ended(3);
    expect(attempts).toEqual([1, 2, 3]);
    expect(await look(one, job, key)).toMatchObject({ state: "dead", reason: "no" });
  });

  it("that takes longer than its deadline has failed, and is told", async () => {
    const one = make();
    const told = gate<unknown>();
    const job = defineJob(one.engine, "deadline", { deadline: "20 ms", maxAttempts: 1 }, ({ signal }) => {
      signal.addEventListener("abort", () => told.open(signal.reason));
      return new Promise(() => {});
    });
    await one.engine.start();
    const { key } = await enqueue(one.engine, job, undefined);
    expect(await told.promise).toMatchObject({ code: "deadline_passed" });
    await one.history.ended(1);
    expect(await look(one, job, key)).toMatchObject({ state: "dead" });
  });

  it("does not run finished steps again", async () => {
    const one = make();
    const ran: string[] = [];
    const job = defineJob(
      one.engine,
      "steps",
      { backoff: { baseMs: 1, capMs: 1 } },
      async ({ step, attempt }) => {
        const a = await step("a", () => {
          ran.push("a");
          return 20;
        });
        await step.sleep("rest", 5);
        if (attempt < 4) {
          ran.push("no");
          throw new Error("not yet");
        }
        return a + (await step("b", () => (ran.push("b"), 1)));
      },
    );
    await one.engine.start();
    const { key } = await enqueue(one.engine, job, undefined);
    await one.history.ended(4);
    expect(ran).toEqual(["a", "no", "no", "b"]);
    expect(one.history.outcomes()).toEqual(["waiting", "failed", "failed", "done"]);
    expect(await look(one, job, key)).toMatchObject({ state: "done", result: "21" });
  });

  describe("limits", () => {
    /** Runs so many, and says how many ran at once at the most, of all and of each key. */
    const most = async (
      one: JobEngine,
      job: Job<{ key: string }>,
      at: { most: number; mostOfKey: number },
      count: number,
    ) => {
      await one.engine.start();
      await Promise.all(
        Array.from({ length: count }, (_, i) => enqueue(one.engine, job, { key: `k${i % 3}` })),
      );
      await one.history.ended(count);
      return at;
    };
    const counting = () => {
      const running = new Map<string, number>();
      const at = { most: 0, mostOfKey: 0 };
      const fn = async ({ input: { key } }: { input: { key: string } }): Promise<void> => {
        running.set(key, (running.get(key) ?? 0) + 1);
        at.most = Math.max(
          at.most,
          [...running.values()].reduce((a, b) => a + b, 0),
        );
        at.mostOfKey = Math.max(at.mostOfKey, running.get(key)!);
        // Long enough for others to start, if they would.
        await new Promise((resolve) => setTimeout(resolve, 4));
        running.set(key, running.get(key)! - 1);
      };
      return { at, fn };
    };

    it("how many run at once", async () => {
      const one = make();
      const { at, fn } = counting();
      const job = defineJob(one.engine, "total", { concurrency: { total: 2 } }, fn);
      expect((await most(one, job, at, 24)).most).toBe(2);
    });

    it("how many of one key run at once", async () => {
      const one = make();
      const { at, fn } = counting();
      const job = defineJob(
        one.engine,
        "per-key",
        { concurrency: { perKey: { key: ({ key }) => key, limit: 2 } } },
        fn,
      );
      await most(one, job, at, 36);
      expect(at.mostOfKey).toBe(2);
      expect(at.most).toBeGreaterThan(2);
    });

    it("how many run at once in this process", async () => {
      const one = make();
      const { at, fn } = counting();
      const job = defineJob(one.engine, "per-process", { concurrency: { perProcess: 3 } }, fn);
      expect((await most(one, job, at, 24)).most).toBe(3);
    });

    it("both the total and that of a key", async () => {
      const one = make();
      const { at, fn } = counting();
      const perKey = { key: ({ key }: { key: string }) => key, limit: 1 };
      const job = defineJob(one.engine, "both", { concurrency: { total: 2, perKey } }, fn);
      expect(await most(one, job, at, 24)).toEqual({ most: 2, mostOfKey: 1 });
    });

    it("the rate at which they start, whatever the number of processes", async () => {
      const [one, other] = [make({ pollMs: 20 }), make({ pollMs: 20 })];
      const starts: number[] = [];
      const job = [one, other].map(({ engine }) =>
        defineJob(
          engine,
          "rate",
          { rate: { limit: 5, per: "1 second" } },
          () => void starts.push(performance.now()),
        ),
      )[0]!;
      await Promise.all([one.engine.start(), other.engine.start()]);
      await Promise.all(
        Array.from({ length: 12 }, (_, i) => enqueue(i % 2 ? one.engine : other.engine, job, undefined)),
      );
      while (starts.length < 12)
        await Promise.race([one, other].map(({ history }) => history.ended(history.ran.length + 1)));
      // Within any second: the five of a full bucket, and what flowed in meanwhile.
      for (const start of starts) {
        expect(starts.filter((at) => at >= start && at < start + 1_000).length).toBeLessThanOrEqual(10);
      }
      expect(starts.at(-1)! - starts[0]!).toBeGreaterThan(1_000);
    });

    it("the rate, and no more: the next start does not wait for a poll", async () => {
      const one = make({ pollMs: 600_000 });
      const job = defineJob(one.engine, "rate-2", { rate: { limit: 2, per: "100 ms" } }, () => undefined);
      await one.engine.start();
      await Promise.all(Array.from({ length: 9 }, (_, i) => enqueue(one.engine, job, i)));
      await one.history.ended(9);
      // It looks when the rate allows it, and not all the time.
      expect(one.watch.count("claim_due_rows")).toBeLessThan(40);
    });

    it("the order of a serial group", async () => {
      const one = make();
      const order: number[] = [];
      let running = 0;
      const job = defineJob(
        one.engine,
        "serial",
        { serial: ({ group }) => group },
        async ({ input }: JobTools<{ group: string; n: number }>) => {
          expect(++running).toBe(1);
          await new Promise(setImmediate);
          running--;
          order.push(input.n);
        },
      );
      await one.engine.start();
      for (let n = 0; n < 30; n++) await enqueue(one.engine, job, { group: "g", n });
      await one.history.ended(30);
      expect(one.history.outcomes()).toEqual(Array(30).fill("done"));
      expect(order).toEqual(Array.from({ length: 30 }, (_, n) => n));
    });
  });

  it("of a higher priority runs first", async () => {
    const one = make({ concurrency: 1 });
    const held = gate();
    const order: number[] = [];
    const job = defineJob(one.engine, "priority", { priority: 1 }, async ({ input }: JobTools<number>) => {
      if (input === 0) await held.promise;
      order.push(input);
    });
    await one.engine.start();
    await enqueue(one.engine, job, 0);
    await enqueue(one.engine, job, 1);
    await enqueue(one.engine, job, 2, { priority: 5 });
    await enqueue(one.engine, job, 3, { priority: -5 });
    held.open();
    await one.history.ended(4);
    expect(order).toEqual([0, 2, 1, 3]);
  });

  it("can be cancelled while it waits", async () => {
    const one = make({ pollMs: noPoll });
    const job = defineJob(one.engine, "cancel", { delay: "1 hour" }, () => undefined);
    const { scope, key } = await enqueue(one.engine, job, undefined);
    expect(await one.engine.ledger.verbs.cancel({ scope, key })).toEqual({ outcome: "cancelled" });
    expect(await look(one, job, key)).toMatchObject({ state: "cancelled" });
  });

  it.each([
    ["a name with a slash", "a/b", {}],
    ["an empty name", "", {}],
    ["no whole number of attempts", "c", { maxAttempts: 1.5 }],
    ["no duration", "c", { deadline: "soon" }],
    ["a serial group and a limit", "c", { serial: () => "g", concurrency: { total: 1 } }],
    ["a rate in no time", "c", { rate: { limit: 1, per: 0 } }],
    ["a priority beyond all others", "c", { priority: 10_000 }],
  ])("is refused when it is defined with %s", (_what, name, options) => {
    const { engine } = make();
    expect(() => defineJob(engine, name, options, () => undefined)).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/config_invalid|value_invalid/) }),
    );
  });

  it("is defined once, and before anything runs", async () => {
    const one = make();
    defineJob(one.engine, "once", () => undefined);
    expect(() => defineJob(one.engine, "once", () => undefined)).toThrow(
      expect.objectContaining({ code: "config_invalid" }),
    );
    await one.engine.start();
    expect(() => defineJob(one.engine, "late", () => undefined)).toThrow(
      expect.objectContaining({ code: "registration_closed" }),
    );
  });
});
