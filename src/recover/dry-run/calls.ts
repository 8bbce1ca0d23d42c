import type { Heard } from "../../database/dry-run.ts";

/** What would leave the handler or job by another way than its rows. */
export type Call =
  /** A job, or another task, that would be enqueued; a duplicate is known already, and would not be. */
  | {
      readonly call: "enqueue";
      readonly scope: string;
      readonly key: string;
      readonly outcome: "enqueued" | "duplicate";
      /** Only where values were asked for. */
      readonly input?: string;
    }
  /** `taken` is false where somebody took the effect key before. */
  | { readonly call: "effect key"; readonly key: string; readonly taken: boolean }
  | {
      readonly call: "move";
      readonly machine: string;
      readonly subject: string;
      readonly move: string;
      readonly outcome: string;
      readonly state: string;
    }
  | {
      readonly call: "signal" | "cancel";
      readonly scope: string;
      readonly key: string;
      readonly outcome: string;
    }
  /** The step at which a job stops, since it would call the world outside. */
  | { readonly call: "step"; readonly name: string; readonly key: string }
  /** A connection that was refused: the code calls the world outside by itself. */
  | { readonly call: "connection"; readonly to: string };

/** What was heard of the ledger's verbs, as calls; `parts` are the tasks of single handlers, which are followed instead. */
export function callsOf(heard: readonly Heard[], values: boolean): { calls: Call[]; parts: Part[] } {
  const calls: Call[] = [];
  const parts: Part[] = [];
  for (const { verb, args, answer } of heard) {
    if (verb === "record_many") {
      for (const { input, ...one } of recorded(args, answer as { outcome: string }[])) {
        if (one.scope.includes("/#")) parts.push({ scope: one.scope, key: one.key });
        else calls.push({ ...one, ...(values && { input }) });
      }
    } else if (verb === "once") {
      calls.push({ call: "effect key", key: String(args[0]), taken: answer === true });
    } else if (verb === "move") {
      const [machine, subject, move] = args.map(String) as [string, string, string];
      const { outcome, state } = answer as { outcome: string; state: string };
      calls.push({ call: "move", machine, subject, move, outcome, state });
    } else if (verb === "signal" || verb === "cancel") {
      const [scope, key] = args.map(String) as [string, string];
      calls.push({ call: verb, scope, key, outcome: (answer as { outcome: string }).outcome });
    }
  }
  return { calls, parts };
}

export interface Part {
  readonly scope: string;
  readonly key: string;
}

function recorded(
  [scopes, keys, bodies]: readonly unknown[],
  answers: readonly { outcome: string }[],
): (Extract<Call, { call: "enqueue" }> & { input: string })[] {
  return answers.map(({ outcome }, i) => ({
    call: "enqueue",
    scope: (scopes as string[])[i]!,
    key: (keys as string[])[i]!,
    outcome: outcome === "duplicate" ? "duplicate" : "enqueued",
    input: textOf((bodies as (string | Uint8Array | null)[])[i]),
  }));
}

function textOf(body: string | Uint8Array | null | undefined): string {
  return typeof body === "string" ? body : Buffer.from(body ?? "").toString("utf8");
}
