import type { Command } from "commander";
import type { Logged, Story, WrittenRows } from "../recover/story.ts";
import { plain } from "../terminal.ts";
import { ledgerCommand, withLedger, type LedgerOptions } from "./command.ts";
import { locate, noSuchTask } from "./locate.ts";
import { span, table, time } from "./output.ts";
import { type WaitingStep, waitingSteps } from "./waiting.ts";

interface ShowOptions extends LedgerOptions {
  readonly scope?: string;
  readonly values?: boolean;
  readonly rows?: boolean;
}

type Told = Story & { readonly waits: readonly WaitingStep[]; readonly rows?: WrittenRows | null };

/** `onceward show KEY`. */
export function showCommand(): Command {
  return ledgerCommand("show", "the whole story of one task")
    .argument("<key>", "an event's id, or the key of a job or action")
    .option("--scope <scope>", "where several have this key: only the one of this scope")
    .option("--values", "show results of steps too, which can hold personal data")
    .option("--rows", "find the rows of your own tables that it wrote, which reads these tables")
    .action(
      withLedger<ShowOptions>(async ({ recovery, out }, { scope, values, rows }, [key = ""]) => {
        const found = await locate(recovery, key, scope);
        const stories = (await Promise.all(found.map((task) => recovery.show(task)))).filter(
          (story) => story !== null,
        );
        if (stories.length === 0) throw noSuchTask(key);
        const told: Told[] = [];
        for (const story of stories)
          told.push({
            ...(values ? story : withoutValues(story)),
            waits: waitingSteps(story),
            ...(rows && { rows: await recovery.rowsOf(story) }),
          });
        out.answer(told, () => told.flatMap((story, i) => [...(i > 0 ? [""] : []), ...tell(story)]));
      }),
    );
}

/** What a run computed stays in the ledger unless it is asked for. */
function withoutValues(story: Story): Story {
  return {
    ...story,
    result: story.result === null ? null : "…",
    steps: story.steps.map((step) => ({ ...step, value: step.value === null ? null : "…" })),
    signals: Object.fromEntries(
      Object.entries(story.signals).map(([name, signal]) => [name, { ...signal, value: null }]),
    ),
  };
}

function tell(story: Told): string[] {
  return [
    `${plain(story.scope)} ${plain(story.key)}`,
    ...facts(story),
    ...section("What happened", table(["at", "what", "attempt", "who", "detail"], history(story))),
    ...section(
      "Steps",
      table(
        ["step", "state", "attempt", "value"],
        story.steps.map((step) => [step.name, step.state, step.attempt, step.value]),
      ),
    ),
    ...section(
      "Waits in",
      table(
        ["step", "fingerprint"],
        story.waits.map(({ step, fingerprint }) => [step, fingerprint]),
      ),
    ),
    ...section(
      "Signals",
      table(
        ["signal", "sent", "who"],
        Object.entries(story.signals).map(([name, { sent_at, actor }]) => [name, time(sent_at), actor]),
      ),
    ),
    ...section(
      "Effect keys",
      table(
        ["scope", "key", "taken"],
        story.effects.map((effect) => [effect.scope, effect.key, time(effect.taken_at)]),
      ),
    ),
    ...section(
      "Enqueued",
      table(
        ["scope", "key", "state", "recorded", "error"],
        story.enqueued.map((task) => [
          task.scope,
          task.key,
          task.state,
          time(task.created_at),
          task.state === "done" ? "" : task.reason,
        ]),
      ),
    ),
    ...section(
      "Moves",
      table(
        ["machine", "subject", "move", "from", "to", "at"],
        story.moves.map((move) => [move.machine, move.subject, move.move, move.from, move.to, time(move.at)]),
      ),
    ),
    ...section("Rows that it wrote", story.rows ? written(story.rows) : []),
  ];
}

function facts(story: Story): string[] {
  const rows: [string, string | null][] = [
    ["type", story.type],
    ["came by", story.origin],
    ["state", story.state === "waiting" ? waiting(story) : story.state],
    ["reason", story.reason],
    ["attempts", `${story.attempt}, ${story.tries} of ${story.max_tries} tries used`],
    ["generation", story.generation > 1 ? String(story.generation) : null],
    ["delivered", deliveries(story)],
    ["group", story.serial],
    ["behind", story.behind],
    ["worker", story.held_by],
    ["payload", story.payload_bytes === null ? "pruned" : `${story.payload_bytes} bytes`],
    ["result", story.result],
    ["caused by", story.causes.length === 0 ? null : story.causes.join(", which was caused by ")],
  ];
  return rows.flatMap(([name, value]) => (value === null ? [] : [`  ${name.padEnd(10)}  ${plain(value)}`]));
}

function deliveries({ deliveries: more }: Story): string | null {
  return more === null ? null : `${more.again} times more, the last at ${time(more.last_at)}`;
}

function waiting({ due_at }: Story): string {
  if (due_at === null || due_at === "infinity") return "waiting for a signal";
  const late = Date.now() - Date.parse(due_at);
  return late >= 0 ? `waiting, due for ${span(late)}` : `waiting until ${time(due_at)}`;
}

function written({ tables, left_out }: WrittenRows): string[] {
  return [
    ...(tables.length === 0 ? ["None that nobody has changed since."] : []),
    ...table(
      ["table", "rows", "primary keys"],
      tables.map(({ table: name, rows, keys }) => [
        name,
        rows,
        keys.map((key) => JSON.stringify(key)).join(" "),
      ]),
    ),
    ...(left_out.length > 0 ? [`Too large to read: ${left_out.map(plain).join(", ")}`] : []),
  ];
}

/** From the record to the end, in order. */
function history(story: Story): (string | number | null)[][] {
  const lines: Logged[] = [
    event(story.created_at, "recorded"),
    ...story.log,
    ...(story.started_at === null
      ? []
      : [{ ...event(story.started_at, "latest attempt started"), attempt: story.attempt }]),
    ...(story.finished_at === null ? [] : [event(story.finished_at, story.state)]),
  ];
  return lines
    .toSorted((a, b) => Date.parse(a.logged_at) - Date.parse(b.logged_at))
    .map((one) => [time(one.logged_at), one.what, one.attempt, one.actor, one.detail]);
}

function event(logged_at: string, what: string): Logged {
  return { logged_at, what, attempt: null, actor: null, detail: null };
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ["", title, ...lines.map((line) => `  ${line}`)];
}
