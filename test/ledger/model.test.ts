/** Random interleavings of three workers, an impatient sender and somebody on call, against a model. */
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Claim, Retry, StepState } from "../../src/ledger/task.ts";
import { leaseMs, Model, type ModelTask, type NewModelTask } from "./model.ts";
import { type Bench, describeOnPglite, describeOnServer, freshLane } from "./support.ts";

/** The real ledger, and what each worker believes it holds: zombies included. */
interface Real {
  readonly bench: Bench;
  readonly lane: string;
  readonly began: number;
  readonly held: Claim[][];
}

type Command = fc.AsyncCommand<Model, Real>;

const workers = [0, 1, 2];

type Spec = Omit<NewModelTask, "fingerprint">;

/** A few tasks each, so that commands meet. */
const plain: Spec[] = [
  { scope: "", key: "plain", priority: 0, maxTries: 3 },
  { scope: "/a", key: "urgent", priority: 5, maxTries: 2 },
  { scope: "/a", key: "usual", priority: 0, maxTries: 30 },
  { scope: "/b", key: "one try", priority: -1, maxTries: 1 },
];
const strict: Spec[] = ["x", "y", "z"].map((key) => ({
  scope: "/a",
  key,
  priority: 0,
  maxTries: 3,
  serial: "g",
}));
const slotted = (slots: number): Spec[] =>
  ["p", "q", "r"].map((key) => ({ scope: "/b", key, priority: 0, maxTries: 30, serial: "s", slots }));

const aWorker = fc.constantFrom(...workers);
/** Mostly the latest claim, sometimes one from long ago. */
const aPick = fc.constantFrom(0, 0, 1, 1, 2, 5);

/** A command from what it does; `toString` is what a failure shows. */
function command(name: string, run: (model: Model, real: Real) => Promise<void>): Command {
  return {
    check: () => true,
    run: async (model, real) => {
      await run(model, real);
      await agree(model, real);
    },
    toString: () => name,
  };
}

const within = ({ lane }: Real, task: { scope: string; key: string }): { scope: string; key: string } => ({
  scope: lane + task.scope,
  key: task.key,
});

/** Every row is as the model has it, and the model is sound. */
async function agree(model: Model, { bench, lane, began }: Real): Promise<void> {
  const { rows } = await bench.database.query(
    `select coalesce(jsonb_object_agg(t.scope || ' ' || t.key, jsonb_build_object('state', t.state, 'attempt', t.attempt,
       'tries', t.tries, 'generation', t.generation, 'result', r.value,
       'due', round(extract(epoch from t.due_at) * 1000 - ($2::text)::numeric),
       'steps', (select coalesce(jsonb_object_agg(s.name, s.state), '{}') from onceward.step s
         where s.scope = t.scope and s.key = t.key and s.generation = t.generation))), '{}') as tasks
     from onceward.task t left join onceward.result r on r.scope = t.scope and r.key = t.key
     where t.scope = $1::text or starts_with(t.scope, $1::text || '/')`,
    [lane, String(began)],
  );
  const real = rows[0]?.["tasks"] as Record<string, ModelTask & { steps: Record<string, StepState> }>;
  for (const task of model.tasks.values()) {
    const row = real[`${task.scope} ${task.key}`];
    // Stepping aside, and being woken, is the ledger's affair.
    if (task.serial !== undefined && task.state === "waiting" && row?.state === "waiting") task.due = row.due;
    // So is fencing off one of a group whose lease has ended, to let another one run.
    if (
      task.serial !== undefined &&
      task.state === "running" &&
      model.isDue(task) &&
      row?.state === "waiting"
    ) {
      task.state = "waiting";
      task.due = row.due;
    }
  }
  const expected = Object.fromEntries(
    [...model.tasks].map(([name, { state, attempt, tries, generation, due, steps, result }]) => [
      name,
      {
        state,
        attempt,
        tries,
        generation,
        due: due === null ? null : Math.round(due),
        steps: Object.fromEntries(steps),
        result,
      },
    ]),
  );
  expect(real).toEqual(expected);
  expect(model.broken()).toEqual([]);
}

/** Takes over that the real ledger gave this task to a worker, if it may. */
function accept(model: Model, real: Real, worker: number, claim: Claim): void {
  const task = model.find(claim)!;
  expect(task.due).not.toBe(null);
  if (task.serial !== undefined) yieldLapsed(model, task);
  expect(model.take(task)).toBe("claimed");
  expect(claim.attempt).toBe(task.attempt);
  real.held[worker]!.push({ scope: claim.scope, key: claim.key, attempt: claim.attempt });
}

/** Members of a group whose lease has ended do not stand in the way of another one; the comparison says what became of them. */
function yieldLapsed(model: Model, task: ModelTask): void {
  const others = [...model.tasks.values()].filter((one) => one.serial === task.serial && one !== task);
  const live = others.filter((one) => one.scope === task.scope && model.isLive(one));
  expect(live.length).toBeLessThan(task.slots ?? 1);
}

const record = (spec: Spec, fingerprint: string): Command =>
  command(`record(${spec.key}, ${fingerprint})`, async (model, real) => {
    const task = { ...spec, ...within(real, spec), fingerprint };
    const answer = await real.bench.ledger.record(task);
    expect(answer.outcome).toBe(model.record(task));
  });

const recordAndClaim = (worker: number, spec: Spec, fingerprint: string): Command =>
  command(`recordAndClaim(w${worker}, ${spec.key}, ${fingerprint})`, async (model, real) => {
    const task = { ...spec, ...within(real, spec), fingerprint };
    const expected = model.record(task);
    const [answer] = await real.bench.ledger.verbs.record([task], { leaseMs, worker: `w${worker}` });
    const known = model.find(task)!;
    if (answer?.outcome === "claimed") {
      expect(expected).not.toBe("conflict");
      expect(known.due).toBeLessThanOrEqual(model.now);
      return accept(model, real, worker, { ...task, attempt: answer.attempt });
    }
    expect(answer?.outcome).toBe(expected);
    // What is due and plain is claimed, unless it dies of it.
    if (expected !== "conflict" && model.isDue(known)) await settle(model, real, known);
  });

/** A due task that was not handed out: it died of its tries, or it is of a group and stepped aside. */
async function settle(model: Model, { bench }: Real, task: ModelTask): Promise<void> {
  const row = await bench.ledger.verbs.look(task);
  if (row?.["state"] === "dead") return expect(model.take(task)).toBe("dead") as void;
  expect(task.serial).toBeDefined();
  if (task.state === "running" && row?.["state"] === "waiting") task.state = "waiting";
}

const claim = (worker: number, spec: Spec, early: boolean): Command =>
  command(`claim(w${worker}, ${spec.key}${early ? ", early" : ""})`, async (model, real) => {
    const identity = within(real, spec);
    const task = model.find(identity);
    const answer = await real.bench.ledger.verbs.claim(identity, { leaseMs, worker: `w${worker}`, early });
    if (!task) return expect(answer.outcome).toBe("missing") as void;
    const may = model.isDue(task) || (early && task.state === "waiting");
    if (answer.outcome === "claimed") {
      expect(may).toBe(true);
      return accept(model, real, worker, { ...identity, attempt: (answer as Claim & typeof answer).attempt });
    }
    if (may) await settle(model, real, task);
    expect(answer.outcome).toBe(task.state);
  });

const claimDue = (worker: number, max: number): Command =>
  command(`claimDue(w${worker}, ${max})`, async (model, real) => {
    const due = [...model.tasks.values()].filter((task) => model.isDue(task));
    const ready = due.filter((task) => task.serial === undefined && task.tries < task.maxTries);
    const { verbs } = real.bench.ledger;
    const { tasks: claimed } = await verbs.claimDue([real.lane], { max, leaseMs, worker: `w${worker}` });
    expect(claimed.length).toBeLessThanOrEqual(max);
    // No room is left while a plain task waits.
    expect(claimed.length).toBeGreaterThanOrEqual(Math.min(max, ready.length));
    const names = new Set(claimed.map((task) => `${task.scope} ${task.key}`));
    expect(names.size).toBe(claimed.length);
    for (const task of claimed) {
      // One of a group may have become due meanwhile, when the one before it died.
      if (task.serial === null) expect(due).toContain(model.find(task));
      // Within a scope nothing more urgent was left behind.
      const better = ready.filter(
        (one) =>
          one.scope === task.scope &&
          one.priority > model.find(task)!.priority &&
          !names.has(`${one.scope} ${one.key}`),
      );
      expect(better).toEqual([]);
    }
    // Those of a group that gave way first, then those that came.
    for (const task of due) if (!names.has(`${task.scope} ${task.key}`)) await left(model, real, task);
    for (const task of claimed) accept(model, real, worker, task);
  });

/** A due task that claimDue did not return: it was not reached, died, or stepped aside. */
async function left(model: Model, real: Real, task: ModelTask): Promise<void> {
  const row = await real.bench.ledger.verbs.look(task);
  if (row?.["state"] === "dead") expect(model.take(task)).toBe("dead");
  else if (task.serial !== undefined && row?.["state"] === "waiting") task.state = "waiting";
}

/** A write of a worker who believes that it holds something; it stays a zombie if it does not. */
function write(
  name: string,
  worker: number,
  pick: number,
  run: (model: Model, real: Real, claim: Claim) => Promise<void>,
): Command {
  return command(`${name}(w${worker}, #${pick})`, async (model, real) => {
    const held = real.held[worker]!;
    const one = held[held.length - 1 - (pick % Math.max(1, held.length))];
    if (one) await run(model, real, one);
  });
}

const renew = (worker: number, pick: number): Command =>
  write("renew", worker, pick, async (model, { bench }, one) => {
    expect(await bench.ledger.verbs.renew([one], leaseMs)).toEqual([model.renew(one)]);
  });

const complete = (worker: number, pick: number): Command =>
  write("complete", worker, pick, async (model, { bench }, one) => {
    const result = JSON.stringify(`w${worker}`);
    expect(await bench.ledger.verbs.complete([{ ...one, result }])).toEqual([model.complete(one, result)]);
  });

const fail = (worker: number, pick: number, retry: Retry): Command =>
  write(`fail ${JSON.stringify(retry)}`, worker, pick, async (model, { bench, began }, one) => {
    const answer = await bench.ledger.verbs.fail([{ ...one, reason: "broken", retry }]);
    const due = (await bench.ledger.verbs.look(one))?.["due_at"] as string | null;
    expect(answer).toEqual([model.fail(one, retry, due === null ? null : msOf(due) - began)]);
  });

/** Postgres writes microseconds, of which Date keeps none. */
function msOf(timestamp: string): number {
  const micros = Number(/\.\d{3}(\d{1,3})/.exec(timestamp)?.[1]?.padEnd(3, "0") ?? 0);
  return Date.parse(timestamp) + micros / 1000;
}

const defer = (worker: number, pick: number, delayMs: number): Command =>
  write(`defer ${delayMs}`, worker, pick, async (model, { bench }, one) => {
    expect(await bench.ledger.verbs.defer(one, { delayMs })).toBe(model.defer(one, delayMs));
  });

const saveStep = (worker: number, pick: number, name: string, state: StepState): Command =>
  write(`saveStep ${name} ${state}`, worker, pick, async (model, { bench }, one) => {
    expect(await bench.ledger.verbs.saveSteps([{ ...one, name, state }])).toEqual([
      model.saveStep(one, name, state),
    ]);
  });

const cancel = (spec: Spec): Command =>
  command(`cancel(${spec.key})`, async (model, real) => {
    const identity = within(real, spec);
    expect((await real.bench.ledger.verbs.cancel(identity)).outcome).toBe(model.cancel(identity));
  });

const replay = (spec: Spec, again: boolean): Command =>
  command(`replay(${spec.key}${again ? ", again" : ""})`, async (model, real) => {
    const identity = within(real, spec);
    const [answer] = await real.bench.ledger.verbs.replay([identity], { again });
    expect(answer?.outcome).toBe(model.replay(identity, again));
  });

const once = (key: string): Command =>
  command(`once(${key})`, async (model, { bench, lane }) => {
    expect(await bench.ledger.verbs.once(key, { scope: lane })).toBe(model.once(key));
  });

const advance = (ms: number): Command =>
  command(`advance(${ms})`, async (model, { bench }) => {
    await bench.clock.advance(ms);
    model.now += ms;
  });

const retries: Retry[] = ["backoff", "never", "unknown", { afterMs: 0 }, { afterMs: 45_000 }];
const fingerprints = fc.constantFrom("same", "same", "same", "other");
const aStep = fc.constantFrom("s1", "s2");
const aStepState = fc.constantFrom<StepState>("started", "done", "failed", "waiting");

function commandsOf(specs: readonly Spec[]): fc.Arbitrary<Command>[] {
  const aTask = fc.constantFrom(...specs);
  const many = fc.constantFrom(1, 2, 4, 10);
  const spans = fc.constantFrom(1_000, 30_000, leaseMs + 1_000, leaseMs + 1_000, 600_000);
  return [
    fc.tuple(aTask, fingerprints).map(([task, fingerprint]) => record(task, fingerprint)),
    fc.tuple(aWorker, aTask, fingerprints).map((args) => recordAndClaim(...args)),
    fc.tuple(aWorker, aTask, fc.boolean()).map((args) => claim(...args)),
    fc.tuple(aWorker, many).map((args) => claimDue(...args)),
    fc.tuple(aWorker, many).map((args) => claimDue(...args)),
    fc.tuple(aWorker, aPick).map((args) => renew(...args)),
    fc.tuple(aWorker, aPick).map((args) => renew(...args)),
    fc.tuple(aWorker, aPick).map((args) => complete(...args)),
    fc.tuple(aWorker, aPick, fc.constantFrom(...retries)).map((args) => fail(...args)),
    fc.tuple(aWorker, aPick, fc.constantFrom(0, 30_000, 90_000)).map((args) => defer(...args)),
    fc.tuple(aWorker, aPick, aStep, aStepState).map((args) => saveStep(...args)),
    aTask.map(cancel),
    fc.tuple(aTask, fc.boolean()).map((args) => replay(...args)),
    fc.constantFrom("e1", "e2").map(once),
    spans.map(advance),
    spans.map(advance),
  ];
}

/** After all that, whoever keeps claiming and completing gets to the end: nothing is stuck (I5). */
async function drains(model: Model, real: Real): Promise<void> {
  const { bench, lane } = real;
  for (let round = 0; round < 60; round++) {
    if ([...model.tasks.values()].every((task) => task.due === null)) return;
    const { tasks: claimed } = await bench.ledger.verbs.claimDue([lane], {
      max: 20,
      leaseMs,
      worker: "last",
    });
    await bench.ledger.verbs.complete(claimed);
    await bench.clock.advance(leaseMs + 1_000);
    for (const task of model.tasks.values()) {
      const row = await bench.ledger.verbs.look(task);
      task.due = row?.["due_at"] === null ? null : 0;
    }
  }
  const stuck = [...model.tasks.values()].filter((task) => task.due !== null);
  expect(stuck.map((task) => task.key)).toEqual([]);
}

function compare(bench: () => Bench, specs: readonly Spec[], runs: number): Promise<void> {
  const sequences = fc.commands(commandsOf(specs), { maxCommands: 100, size: "max" });
  const property = fc.asyncProperty(sequences, async (sequence) => {
    await bench().clock.freeze();
    const model = new Model();
    const real: Real = {
      bench: bench(),
      lane: freshLane(),
      began: await bench().clock.now(),
      held: workers.map(() => []),
    };
    await fc.asyncModelRun(() => ({ model, real }), sequence);
    await drains(model, real);
  });
  // A failure names its seed and path. MODEL_RUNS=1000 looks for longer.
  return fc.assert(property, { numRuns: Number(process.env["MODEL_RUNS"] ?? runs), endOnFailure: false });
}

const themes = [
  ["plain tasks", plain],
  ["a serial group", strict],
  ["a group with a slot", slotted(1)],
  ["all of them", [...plain, ...strict, ...slotted(2)]],
] as const;

describeOnPglite("the ledger against its model", (bench) => {
  it.each(themes)(
    "%s: what the model does, and nothing is stuck in the end",
    (_, specs) => compare(bench, specs, 12),
    300_000,
  );
});

describeOnServer("newest", "the ledger against its model", (bench) => {
  it.each(themes)(
    "%s: what the model does, and nothing is stuck in the end",
    (_, specs) => compare(bench, specs, 10),
    300_000,
  );
});
