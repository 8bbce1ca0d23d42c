/** Bad input: a typed error with a stable code through the library, a refusal or a clean error in SQL, and nothing written. */
import { expect, it } from "vitest";
import { sqlStateOf } from "../../src/database/failure.ts";
import { OncewardError } from "../../src/errors.ts";
import type { Ledger } from "../../src/ledger/ledger.ts";
import type { NewTask } from "../../src/ledger/task.ts";
import { type Bench, claimOne, describeOnEach, describeOnPglite, freshLane, minute } from "./support.ts";

/** Wrong types come from JavaScript, and from JSON that somebody trusted. */
const wrong = (value: unknown): never => value as never;

const task = { scope: "s", key: "k" };
const claim = { ...task, attempt: 1 };
const lease = { leaseMs: minute, worker: "w" };
const lone = "a\uD800b";

const badTexts: [string, unknown][] = [
  ["empty", ""],
  ["with a NUL", "a\0b"],
  ["with a lone surrogate", lone],
  ["too long", "é".repeat(1024)],
  ["a number", 7],
  ["null", null],
  ["missing", undefined],
  ["an object", { toString: () => "k" }],
];

/** What is wrong, how it is called, and the code of the error. */
const calls: [string, (ledger: Ledger) => Promise<unknown>, string][] = [
  ...badTexts.flatMap(([what, text]): typeof calls => [
    [
      `record: a scope that is ${what}`,
      ({ record }) => record({ ...task, scope: wrong(text) }),
      "scope_invalid",
    ],
    [`record: a key that is ${what}`, ({ record }) => record({ ...task, key: wrong(text) }), "key_invalid"],
    [
      `claim: a key that is ${what}`,
      ({ verbs }) => verbs.claim({ ...task, key: wrong(text) }, lease),
      "key_invalid",
    ],
    [
      `complete: a key that is ${what}`,
      ({ complete }) => complete({ ...claim, key: wrong(text) }),
      "key_invalid",
    ],
    [
      `renew: a scope that is ${what}`,
      ({ renew }) => renew({ ...claim, scope: wrong(text) }),
      "scope_invalid",
    ],
    [
      `cancel: a key that is ${what}`,
      ({ verbs }) => verbs.cancel({ ...task, key: wrong(text) }),
      "key_invalid",
    ],
    [
      `replay: a key that is ${what}`,
      ({ verbs }) => verbs.replay([{ ...task, key: wrong(text) }]),
      "key_invalid",
    ],
    [
      `look: a scope that is ${what}`,
      ({ verbs }) => verbs.look({ ...task, scope: wrong(text) }),
      "scope_invalid",
    ],
    [`once: a key that is ${what}`, ({ verbs }) => verbs.once(wrong(text)), "key_invalid"],
    [
      `claimDue: a lane that is ${what}`,
      ({ verbs }) => verbs.claimDue([wrong(text)], { max: 1, ...lease }),
      "scope_invalid",
    ],
    [
      `saveStep: a name that is ${what}`,
      ({ saveStep }) => saveStep({ ...claim, name: wrong(text), state: "done" }),
      "value_invalid",
    ],
    [
      `signal: a name that is ${what}`,
      ({ verbs }) => verbs.signal(task, { name: wrong(text) }),
      "value_invalid",
    ],
  ]),
  ...(
    [
      ["a body that is a number", { body: wrong(7) }, "payload_invalid"],
      ["a body that is an object", { body: wrong({ a: 1 }) }, "payload_invalid"],
      ["a body with a lone surrogate", { body: lone }, "payload_invalid"],
      ["a body of more than 16 MB", { body: "x".repeat(2 ** 24 + 1) }, "payload_too_large"],
      ["bytes of more than 16 MB", { body: Buffer.alloc(2 ** 24 + 1, 0xff) }, "payload_too_large"],
      ["a type with a NUL", { type: "a\0b" }, "value_invalid"],
      ["a type that is a number", { type: wrong(7) }, "value_invalid"],
      ["a fingerprint with a lone surrogate", { fingerprint: lone }, "value_invalid"],
      ["a fingerprint without end", { fingerprint: "f".repeat(2000) }, "value_invalid"],
      ["a reason to ignore with a NUL", { ignored: "\0" }, "value_invalid"],
      ["a cause without a key", { cause: wrong({ scope: "s" }) }, "key_invalid"],
      ["a cause with a NUL", { cause: { scope: "s", key: "\0" } }, "key_invalid"],
      ["an empty serial group", { serial: "" }, "value_invalid"],
      ["a serial group with a NUL", { serial: "\0" }, "value_invalid"],
      ["a serial group without end", { serial: "g".repeat(600) }, "value_invalid"],
      ["a priority of a half", { priority: 0.5 }, "value_invalid"],
      ["a priority beyond bounds", { priority: 40_000 }, "value_invalid"],
      ["a priority that is text", { priority: wrong("1") }, "value_invalid"],
      ["no slots", { slots: 0 }, "value_invalid"],
      ["no tries", { maxTries: 0 }, "value_invalid"],
      ["tries without end", { maxTries: Infinity }, "value_invalid"],
      ["a delay into the past", { delayMs: -1 }, "value_invalid"],
      ["a delay of NaN", { delayMs: NaN }, "value_invalid"],
      ["a delay without end", { delayMs: Infinity }, "value_invalid"],
      ["a delay that is text", { delayMs: wrong("5 minutes") }, "value_invalid"],
      ["a date that is none", { dueAt: new Date("never") }, "value_invalid"],
      ["a date that is text", { dueAt: wrong("2026-01-01") }, "value_invalid"],
      ["a date in the year 100000", { dueAt: new Date(3e15) }, "value_invalid"],
    ] satisfies [string, Partial<NewTask>, string][]
  ).flatMap(([what, part, code]): typeof calls => [
    [`record: ${what}`, ({ record }) => record({ ...task, ...part }), code],
    [`recordAndClaim: ${what}`, ({ recordAndClaim }) => recordAndClaim({ ...task, ...part }), code],
  ]),
  ...[NaN, -1, 1.5, 2 ** 31, Infinity, wrong("1"), wrong(null), wrong(undefined)].flatMap(
    (attempt): typeof calls => [
      [
        `complete: an attempt of ${attempt}`,
        ({ complete }) => complete({ ...task, attempt }),
        "value_invalid",
      ],
      [`renew: an attempt of ${attempt}`, ({ renew }) => renew({ ...task, attempt }), "value_invalid"],
      [`defer: an attempt of ${attempt}`, ({ verbs }) => verbs.defer({ ...task, attempt }), "value_invalid"],
      [
        `fail: an attempt of ${attempt}`,
        ({ fail }) => fail({ ...task, attempt, reason: "x", retry: "never" }),
        "value_invalid",
      ],
    ],
  ),
  ...[0, -1, NaN, Infinity, 1e15, wrong("60 seconds")].flatMap((leaseMs): typeof calls => [
    [
      `claim: a lease of ${leaseMs}`,
      ({ verbs }) => verbs.claim(task, { leaseMs, worker: "w" }),
      "value_invalid",
    ],
    [
      `claimDue: a lease of ${leaseMs}`,
      ({ verbs }) => verbs.claimDue(["s"], { max: 1, leaseMs, worker: "w" }),
      "value_invalid",
    ],
    [
      `record: a lease of ${leaseMs}`,
      ({ verbs }) => verbs.record([task], { leaseMs, worker: "w" }),
      "value_invalid",
    ],
    [`renew: a lease of ${leaseMs}`, ({ verbs }) => verbs.renew([claim], leaseMs), "value_invalid"],
    [
      "fail: the same as a pause",
      ({ fail }) => fail({ ...claim, reason: "x", retry: { afterMs: leaseMs === 0 ? -5 : leaseMs } }),
      "value_invalid",
    ],
    [
      "defer: the same as a pause",
      ({ verbs }) => verbs.defer(claim, { delayMs: leaseMs === 0 ? -5 : leaseMs }),
      "value_invalid",
    ],
  ]),
  ["claimDue: at most 0", ({ verbs }) => verbs.claimDue(["s"], { max: 0, ...lease }), "value_invalid"],
  ["claimDue: at most NaN", ({ verbs }) => verbs.claimDue(["s"], { max: NaN, ...lease }), "value_invalid"],
  ["claimDue: at most 1.5", ({ verbs }) => verbs.claimDue(["s"], { max: 1.5, ...lease }), "value_invalid"],
  ...[
    { running: -1 },
    { running: 1.5 },
    { max: NaN },
    { rate: { limit: 0, perMs: 1 } },
    { rate: { limit: NaN, perMs: 1 } },
    { rate: { limit: Infinity, perMs: 1 } },
    { rate: { limit: 1, perMs: 0 } },
    { rate: { limit: 1, perMs: NaN } },
  ].map((limit): (typeof calls)[number] => [
    `claimDue: a limit of ${JSON.stringify(limit)}`,
    ({ verbs }) => verbs.claimDue(["s"], { max: 1, ...lease, limits: { s: limit } }),
    "value_invalid",
  ]),
  [
    "saveStep: an unknown state",
    ({ saveStep }) => saveStep({ ...claim, name: "a", state: wrong("finished") }),
    "value_invalid",
  ],
  [
    "saveStep: a value with a NUL",
    ({ saveStep }) => saveStep({ ...claim, name: "a", state: "done", value: "\0" }),
    "value_invalid",
  ],
  [
    "saveStep: a value of more than 16 MB",
    ({ saveStep }) => saveStep({ ...claim, name: "a", state: "done", value: "x".repeat(2 ** 24 + 1) }),
    "payload_too_large",
  ],
  ["complete: a result with a NUL", ({ complete }) => complete({ ...claim, result: "\0" }), "value_invalid"],
  [
    "complete: a result that is an object",
    ({ complete }) => complete({ ...claim, result: wrong({}) }),
    "value_invalid",
  ],
  [
    "complete: a result of more than 16 MB",
    ({ complete }) => complete({ ...claim, result: "x".repeat(2 ** 24 + 1) }),
    "payload_too_large",
  ],
  [
    "fail: an unknown retry",
    ({ fail }) => fail({ ...claim, reason: "x", retry: wrong("sometimes") }),
    "value_invalid",
  ],
  ["fail: no retry", ({ fail }) => fail({ ...claim, reason: "x", retry: wrong(undefined) }), "value_invalid"],
  [
    "resolveStep: an unknown decision",
    ({ verbs }) => verbs.resolveStep(task, { name: "a", decision: wrong("maybe") }),
    "value_invalid",
  ],
  [
    "signal: a value with a lone surrogate",
    ({ verbs }) => verbs.signal(task, { name: "a", value: lone }),
    "value_invalid",
  ],
  [
    "signal: an actor with a NUL",
    ({ verbs }) => verbs.signal(task, { name: "a", actor: "\0" }),
    "value_invalid",
  ],
  [
    "defer: until a date that is none",
    ({ verbs }) => verbs.defer(claim, { at: new Date(NaN) }),
    "value_invalid",
  ],
  ["cancel: a reason with a NUL", ({ verbs }) => verbs.cancel(task, { reason: "\0" }), "value_invalid"],
  [
    "replay: an actor that is a number",
    ({ verbs }) => verbs.replay([task], { actor: wrong(7) }),
    "value_invalid",
  ],
  ["prune: keys of NaN", ({ verbs }) => verbs.prune({ what: "keys", olderThanMs: NaN }), "value_invalid"],
  [
    "prune: keys that are still needed",
    ({ verbs }) => verbs.prune({ what: "keys", olderThanMs: minute }),
    "value_invalid",
  ],
  [
    "prune: at most -1",
    ({ verbs }) => verbs.prune({ what: "log", olderThanMs: minute, max: -1 }),
    "value_invalid",
  ],
  ["record: a scope with a space", ({ record }) => record({ ...task, scope: "my agent" }), "scope_invalid"],
  [
    "prune: a lane with a NUL",
    ({ verbs }) => verbs.prune({ what: "log", olderThanMs: minute, lane: "\0" }),
    "scope_invalid",
  ],
  [
    "prune: keys that are still needed, with the override",
    ({ verbs }) => verbs.prune({ what: "keys", olderThanMs: minute, override: true }),
    "value_invalid",
  ],
  ["hello: a worker without a name", ({ verbs }) => verbs.hello("", []), "value_invalid"],
  [
    "move: a subject with a NUL",
    ({ verbs }) => verbs.move({ machine: "m", subject: "\0", move: "a", from: ["x"], to: "y", initial: "x" }),
    "value_invalid",
  ],
  [
    "move: a version of NaN",
    ({ verbs }) =>
      verbs.move({ machine: "m", subject: "s", move: "a", from: ["x"], to: "y", initial: "x", version: NaN }),
    "value_invalid",
  ],
];

/** Everything the ledger holds, counted. */
async function counts({ database }: Bench): Promise<unknown> {
  const tables = "task payload result step signal effect machine move log rate worker".split(" ");
  const { rows } = await database.query(
    `select jsonb_build_object(${tables.map((t) => `'${t}', (select count(*) from onceward.${t})`).join(", ")}) as n`,
  );
  return rows[0]?.["n"];
}

describeOnPglite("bad input through the library", (bench) => {
  it.each(calls)("%s", async (_, call, code) => {
    const before = await counts(bench());
    // A promise that rejects, not a throw.
    const error = await call(bench().ledger).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(OncewardError);
    expect(error).toMatchObject({ code, retry: false });
    // Keys and payloads can hold personal data: the message says what is wrong, and does not repeat it.
    expect((error as Error).message).not.toMatch(/\uD800|\0|éé|xxx|fff|ggg/);
    expect(await counts(bench())).toEqual(before);
  });

  it("of one caller does not fail those who share its batch", async () => {
    const { ledger } = bench();
    const scope = freshLane();
    const bad = [
      ledger.record({ scope, key: "\0" }),
      ledger.record({ scope, key: "bad", type: "\0" }),
      ledger.record({ scope, key: "bad", cause: { scope: "", key: "" } }),
    ];
    const good = ["a", "b"].map((key) => ledger.record({ scope, key }));
    for (const { status } of await Promise.allSettled(bad)) expect(status).toBe("rejected");
    expect(await Promise.all(good)).toEqual([{ outcome: "recorded" }, { outcome: "recorded" }]);
    const claims = [await claimOne(ledger, scope, "a"), await claimOne(ledger, scope, "b")];
    const steps = claims.map((one, i) =>
      ledger
        .saveStep({ ...one, name: "x", state: i === 0 ? "done" : wrong("finished") })
        .catch(() => "refused"),
    );
    expect(await Promise.all(steps)).toEqual(["saved", "refused"]);
    const done = claims.map((one, i) =>
      ledger.complete({ ...one, ...(i && { result: "\0" }) }).catch(() => "refused"),
    );
    expect(await Promise.all(done)).toEqual(["done", "refused"]);
  });
});

/** In SQL: what to call, and the refusal it answers. */
const refusals: [string, string][] = [
  ["onceward.record('', 'k')", "scope_invalid"],
  ["onceward.record(null, 'k')", "scope_invalid"],
  ["onceward.record('my agent', 'k')", "scope_invalid"],
  ["onceward.record(repeat('é', 128), 'k')", "scope_invalid"],
  ["onceward.record('s', '')", "key_invalid"],
  ["onceward.record('s', null)", "key_invalid"],
  ["onceward.record('s', repeat('k', 1025))", "key_invalid"],
  ["onceward.record('s', 'k', repeat('x', 16777217))", "payload_too_large"],
  [`onceward.record('s', 'k', options => '[]')`, "value_invalid"],
  [`onceward.record('s', 'k', options => '"text"')`, "value_invalid"],
  [`onceward.record('s', 'k', options => '{"priority": "high"}')`, "value_invalid"],
  [`onceward.record('s', 'k', options => '{"priority": 99999}')`, "value_invalid"],
  [`onceward.record('s', 'k', options => '{"slots": 0}')`, "value_invalid"],
  [`onceward.record('s', 'k', options => '{"slots": {}}')`, "value_invalid"],
  [`onceward.record('s', 'k', options => '{"max_tries": -1}')`, "value_invalid"],
  [`onceward.record('s', 'k', options => '{"serial": ""}')`, "value_invalid"],
  [`onceward.record('s', 'k', options => '{"due_at": "-infinity"}')`, "value_invalid"],
  [`onceward.record('s', 'k', options => '{"delay": "-Infinity"}')`, "value_invalid"],
  ["onceward.step_resolve('s', 'k', 'a', 'maybe')", "value_invalid"],
  ["onceward.prune('keys', '1 day')", "value_invalid"],
  ["onceward.prune('everything', '1 day')", "value_invalid"],
  ["onceward.prune('payloads', '-1 day')", "value_invalid"],
  ["onceward.prune('log', '1 day', max => '-1')", "value_invalid"],
];

/** In SQL: what to call, and the SQLSTATE it raises. All are of the classes for bad data and broken constraints. */
const raises: [string, string][] = [
  ["onceward.record('s', 'k', options => 'no json')", "22P02"],
  [`onceward.record('s', 'k', options => '{"delay": "soon"}')`, "22007"],
  [`onceward.record('s', 'k', options => '{"due_at": "tomorrow-ish"}')`, "22007"],
  [`onceward.record('s', 'k', options => '{"bytes": "%%%"}')`, "22023"],
  ["onceward.record('s', 'k', lease => 'soon')", "22007"],
  ["onceward.claim('raw', 'waits', 'soon')", "22007"],
  ["onceward.claim('raw', 'k', early => 'perhaps')", "22P02"],
  ["onceward.claim_due(array['raw'], 'many')", "22P02"],
  ["onceward.claim_due(array['raw'], limits => 'none')", "22P02"],
  ["onceward.complete('raw', 'k', 'first')", "22P02"],
  ["onceward.complete('raw', 'k', '99999999999')", "22003"],
  ["onceward.renew('raw', 'k', '1', 'soon')", "22007"],
  ["onceward.fail('raw', 'k', '1', 'x', 'sometimes')", "22007"],
  ["onceward.defer('raw', 'k', '1', 'soon')", "22007"],
  ["onceward.step_save('raw', 'k', '1', 'a', 'finished')", "23514"],
  ["onceward.step_save('raw', 'k', '1', '')", "23514"],
  ["onceward.step_save('raw', 'k', '1', null)", "23502"],
  ["onceward.signal('raw', 'k', null)", "23502"],
  ["onceward.once('')", "23514"],
  ["onceward.once(null)", "23502"],
  ["onceward.move('m', 's', 'a', array['x'], null, 'x')", "23502"],
  ["onceward.move('m', 's', 'a', array['x'], 'y', 'x', 'first')", "22P02"],
  // Such a state without its timer would never end.
  [
    `onceward.move(repeat('m', 250), 's', 'a', '{x}', 'y', 'x', timers => '[{"move": "b", "after": "1 day"}]')`,
    "22023",
  ],
  [
    `onceward.move('m', repeat('s', 512), 'a', '{x}', 'y', 'x',
      timers => jsonb_build_array(jsonb_build_object('move', repeat('b', 600), 'after', '1 day'))::text)`,
    "22023",
  ],
  ["onceward.replay('raw', 'done', 'perhaps')", "22P02"],
  ["onceward.hello(null, array['raw'])", "23502"],
];

/** In SQL: nonsense that is answered with a plain no. */
const answers: [string, unknown][] = [
  ["onceward.claim(null, null)", { outcome: "missing" }],
  ["onceward.claim_due(null)", { tasks: [], after: null, next_in_ms: null }],
  ["onceward.claim_due(array['raw', null], max => '0')", { tasks: [], after: null, next_in_ms: null }],
  ["onceward.complete(null, null, null)", "lost"],
  ["onceward.complete('raw', 'k', '-1')", "lost"],
  ["onceward.fail(null, null, null, null)", "lost"],
  ["onceward.renew(null, null, null)", "lost"],
  ["onceward.defer(null, null, null)", "lost"],
  ["onceward.step_save(null, null, null, null)", "lost"],
  ["onceward.cancel(null, null)", { outcome: "missing" }],
  ["onceward.signal(null, null, null)", { outcome: "missing" }],
  ["onceward.replay(null, null)", { outcome: "missing" }],
  ["onceward.move('m', 's', 'a', null, 'y', 'x')", { outcome: "refused", state: "x", version: 0 }],
  ["onceward.look(null, null)", null],
  ["onceward.payload(null, null)", null],
  ["onceward.goodbye(null)", "goodbye"],
];

describeOnEach("nonsense in SQL", (bench) => {
  const call = async (statement: string): Promise<unknown> => {
    const { rows } = await bench().database.query(`select ${statement} as answer`);
    return rows[0]?.["answer"];
  };

  it.each(refusals)("select %s is refused", async (statement, code) => {
    const before = await counts(bench());
    expect(await call(statement)).toEqual({ outcome: "refused", code });
    expect(await counts(bench())).toEqual(before);
  });

  it("in one item of a batch does not keep the others from being recorded", async () => {
    const scope = freshLane();
    const answer = await call(
      `onceward.record_many(array['${scope}', '', '${scope}'], array['a', 'b', 'c'], null, null, null,
         array[null, null, '{"priority": "high"}'])`,
    );
    expect(answer).toMatchObject([{ outcome: "recorded" }, { outcome: "refused" }, { outcome: "refused" }]);
    expect(await bench().ledger.verbs.look({ scope, key: "a" })).toMatchObject({ state: "waiting" });
  });

  it.each(raises)("select %s raises %s", async (statement, sqlState) => {
    const { ledger } = bench();
    for (const key of ["k", "done"]) await ledger.recordAndClaim({ scope: "raw", key });
    await ledger.complete({ scope: "raw", key: "done", attempt: 1 });
    await ledger.record({ scope: "raw", key: "waits" });
    const before = await counts(bench());
    const error: unknown = await call(statement).then(
      (answer) => new Error(`answered ${JSON.stringify(answer)}`),
      (thrown: unknown) => thrown,
    );
    expect(`${sqlStateOf(error)} ${sqlStateOf(error) ? "" : String(error)}`.trim()).toBe(sqlState);
    expect(await counts(bench())).toEqual(before);
  });

  it.each(answers)("select %s answers no", async (statement, answer) => {
    const before = await counts(bench());
    expect(await call(statement)).toEqual(answer);
    expect(await counts(bench())).toEqual(before);
  });

  it("cannot break what the constraints say, not even by hand", async () => {
    const { database, ledger } = bench();
    const scope = freshLane();
    await ledger.recordAndClaim({ scope, key: "k" });
    const changes = [
      "state = 'finished'",
      "state = 'done'", // without a time
      "due_at = null",
      "tries = 31",
      "tries = attempt + 1",
      "attempt = 0, tries = 0",
      "behind = 'x'",
      "scope = ''",
      "key = ''",
      "state = 'dead', due_at = null, finished_at = now()", // without a reason
    ];
    for (const change of changes) {
      const changing = database.query(`update onceward.task set ${change} where scope = '${scope}'`);
      const error = await changing.then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect({ [change]: sqlStateOf(error) }).toEqual({ [change]: "23514" });
    }
  });
});
