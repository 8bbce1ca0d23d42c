/** A schedule as steps that a person can read. */
import type { Failure } from "./explore.ts";
import type { Statement } from "./live.ts";
import { textsOf, verbOf } from "./params.ts";
import type { Step } from "./played.ts";

export function printFailure(failure: Failure): string {
  const { violations, played } = failure;
  return [
    ...violations.map(({ invariant, what }) => `${invariant}: ${what}`),
    "",
    ...played.steps.map((step, i) => printStep(step, i + 1)),
  ].join("\n");
}

function printStep(step: Step, number: number): string {
  const { op, fault, resume } = step.option;
  const time = `${(step.atMs / 1000).toFixed(0)} s`.padStart(6);
  const head = `${String(number).padStart(3)} ${time}  ${(resume?.name ?? op?.who ?? "").padEnd(10)}`;
  if (resume) return `${head} goes on after its pause`;
  if (!op) return head;
  const what = typeof op.what === "string" ? op.what : printStatement(op.what);
  const answer = printAnswer(step);
  const said = answer && fault !== "crash before" && fault !== "cut off" ? ` → ${answer}` : "";
  const ending = fault ? `   ✗ ${faultWords[fault]}` : step.option.cost > 0 ? "   ⇄ this goes first" : "";
  return `${head} ${step.inTransaction ? "  " : ""}${what}${said}${ending}`;
}

const faultWords = {
  "crash before": "it dies before this",
  "crash after": "it dies right after this",
  "answer lost": "this takes effect, the answer is lost",
  "cut off": "the connection breaks before this",
  "pause before": "it is stopped before this, for longer than the lease",
  "pause after": "it is stopped right after this, for longer than the lease",
  slow: "the answer takes longer than the lease",
};

const longest = 110;

function printAnswer({ reply, answer }: Step): string {
  if (reply === "blocked") return "waits for a lock";
  if (answer !== undefined) return JSON.stringify(answer);
  if (!reply) return "";
  if ("error" in reply) return `error ${reply.error.code}`;
  const rows = JSON.parse(reply.rows) as Record<string, unknown>[];
  if (reply.command !== "SELECT") return reply.command === "COMMIT" ? "" : `${reply.rowCount ?? 0} row(s)`;
  if (rows.length === 1 && rows[0] && "answer" in rows[0]) return brief(shortAnswer(rows[0]["answer"]));
  // Claimed tasks come as rows, the last of which says when to look again.
  if (rows[0] && "next_in_ms" in rows[0]) return brief(shortAnswer({ tasks: rows.slice(0, -1) }));
  return rows.length === 0 ? "nothing" : brief(rows);
}

/** Of a claim, who was claimed; of lists of one, the one. */
function shortAnswer(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.length === 1 ? shortAnswer(answer[0]) : answer.map(shortAnswer);
  if (typeof answer !== "object" || answer === null) return answer;
  const {
    tasks,
    task: _task,
    ...rest
  } = answer as { tasks?: { key: string; attempt: number }[]; task?: unknown };
  if (!tasks) return rest;
  return tasks.length === 0 ? "nothing due" : tasks.map(({ key, attempt }) => `${key}, attempt ${attempt}`);
}

function printStatement(statement: Statement): string {
  const verb = verbOf(statement);
  const literals = verb ? Array.from(statement.text.matchAll(/E'((?:[^']|'')*)'/g), ([, text]) => text!) : [];
  const values = statement.values.map((value) => textsOf(value).join(" "));
  const args = [...literals, ...values].filter((text) => text !== "");
  const text = statement.text.replaceAll(/\s+/g, " ").trim();
  return brief(verb ? `${verb}(${args.join(", ")})` : [text, ...args].join(" | "));
}

function brief(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}
