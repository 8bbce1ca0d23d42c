/** Whoever exports what our functions return has declarations made of it: each type in there needs a name in the package. */
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";

/** Everything that can be called, and what is reached through it, without a type written down. */
const program = `
import { createOnce, defineConfig, type DryRunReport, type JobOptions, type JobTools, type HandlerOptions, type Story } from "onceward";
import { stripe } from "onceward/stripe";
import { lambdaHandler } from "onceward/lambda";
import { nodeHandler } from "onceward/node";

export const once = createOnce();
export const config = defineConfig({ once });
export const billing = once.source(stripe({ secrets: "whsec_x" }));
export const [lambda, node] = [lambdaHandler(billing), nodeHandler(billing)];
export const { database, engine, sources, source, job, enqueue, schedule, run, take, tool, signal, machine, observe } = once;
export const { receive, take: takeEvent, identify, handlers, on } = billing;
export const {
  status, stuck, list, find, show, rowsOf, replay, replayWhere, countReplayable, unfinishedReplays, resumeReplay,
  dryRun, replayable, backfill, cancel, resolve, prune, doctor, audit,
} = once.recovery;
export const mail = once.job("mail", async ({ input }: JobTools<{ to: string }>) => input.to);
export const enqueued = once.enqueue(mail, { to: "ann" });
export const toolsOf = (tools: JobTools<number>) => [tools.enqueue, tools.step, tools.step.waitFor] as const;
export const concurrencyOf = (options: JobOptions<number>) => options.concurrency!;
export const backoffOf = (options: JobOptions<number>) => options.backoff!;
export const newerOf = (options: HandlerOptions<{ id: string }, number>) => options.applyIfNewer!;
export const partsOf = (story: Story) => [story.steps[0]!, story.log[0]!, story.signals["a"]!] as const;
export const partsOfReport = ({ handlers, tables, calls }: DryRunReport) =>
  [handlers[0]!, tables[0]!, tables[0]!.rows[0]!, calls[0]!] as const;
export const observed = (observer: Parameters<typeof once.observe>[0]) => [observer.received!, observer.attempted!] as const;
export const order = once.machine("order", { initial: "new", states: { new: {}, paid: {} }, moves: { pay: { from: ["new"], to: "paid" } } });
export const { move, state, history } = order;
`;

let folder: string;
beforeAll(() => {
  mkdirSync(".onceward", { recursive: true });
  // Inside the project, where other packages are found.
  folder = mkdtempSync(join(resolve(".onceward"), "declarations-"));
  const installed = join(folder, "node_modules/onceward");
  cpSync("package.json", join(installed, "package.json"));
  cpSync("dist", join(installed, "dist"), {
    recursive: true,
    filter: (path) => !/\.\w+$/.test(path) || path.endsWith(".d.ts"),
  });
});
afterAll(() => rmSync(folder, { recursive: true }));

it("every type that the API returns or takes has a name", async () => {
  const compilerOptions = {
    declaration: true,
    emitDeclarationOnly: true,
    outDir: "out",
    rootDir: ".",
    module: "nodenext",
    target: "es2022",
    strict: true,
    skipLibCheck: true,
    types: ["node"],
  };
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["program.ts"] }));
  writeFileSync(join(folder, "program.ts"), program);
  const complaints = await new Promise<string>((done) => {
    const args = [resolve("node_modules/typescript/bin/tsc"), "-p", folder, "--pretty", "false"];
    execFile(process.execPath, args, (error, stdout) => done(error ? stdout : ""));
  });
  expect(complaints).toBe("");
});
