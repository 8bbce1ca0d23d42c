/** Where a framework mounts a source. */
import { join, posix } from "node:path";
import type { Framework, Project } from "./project.ts";

export interface Mount {
  readonly path: string;
  readonly text: string;
  /** What is left to do by hand: one line of the application. */
  readonly todo: string;
}

/** Undefined without a framework: then `onceward serve` receives. */
export function mountFor(project: Project): Mount | undefined {
  return mounts[project.framework]?.(project);
}

/** As lists of lines: what begins a line here with `import` would be taken for an import of ours by who reads the package. */
const start = [
  "/** Runs events and jobs in this process: call it once, when the server starts. */",
  "export const startWorker = () => once.start();",
];

const mounts: Readonly<Record<Framework, ((project: Project) => Mount) | undefined>> = {
  none: undefined,
  express: (project) => ({
    path: pathOf(project),
    text: lines([
      'import { Router } from "express";',
      'import { expressHandler } from "onceward/express";',
      importConfig(project, pathOf(project), "billing, once"),
      "",
      "/** Before express.json(), which would take the signed bytes away: app.use(webhooks) */",
      "export const webhooks = Router();",
      'webhooks.post("/webhooks/stripe", expressHandler(billing));',
      "",
      ...start,
    ]),
    todo: "In your application, before express.json(): app.use(webhooks); and when it starts: await startWorker();",
  }),
  fastify: (project) => ({
    path: pathOf(project),
    text: lines([
      ...(project.typescript ? ['import type { FastifyInstance } from "fastify";'] : []),
      'import { fastifyPlugin } from "onceward/fastify";',
      importConfig(project, pathOf(project), "billing, once"),
      "",
      "/** A plugin with body parsing of its own, so that other routes keep theirs: await app.register(webhooks) */",
      `export async function webhooks(app${project.typescript ? ": FastifyInstance" : ""}) {`,
      '  await app.register(fastifyPlugin(billing, { path: "/webhooks/stripe" }));',
      "}",
      "",
      ...start,
    ]),
    todo: "In your application: await app.register(webhooks); and when it starts: await startWorker();",
  }),
  hono: (project) => ({
    path: pathOf(project),
    text: lines([
      'import { Hono } from "hono";',
      'import { honoHandler } from "onceward/hono";',
      importConfig(project, pathOf(project), "billing, once"),
      "",
      '/** app.route("/", webhooks) */',
      "export const webhooks = new Hono();",
      'webhooks.post("/webhooks/stripe", honoHandler(billing));',
      "",
      ...start,
    ]),
    todo: 'In your application: app.route("/", webhooks); and, where it is a process that stays: await startWorker();',
  }),
  next: (project) => {
    const path = `${project.app}/webhooks/stripe/route.${project.typescript ? "ts" : "js"}`;
    return {
      path,
      text: lines([
        'import { fetchHandler } from "onceward/fetch";',
        importConfig(project, path, "billing"),
        "",
        "// No worker runs in a serverless function: the event is handled before it is answered. Jobs need a worker",
        "// somewhere: `onceward serve`, or any process that calls once.start().",
        'export const runtime = "nodejs";',
        "export const POST = fetchHandler(billing);",
      ]),
      todo: "Next finds the route by itself. Where jobs are enqueued, run `onceward serve` beside it.",
    };
  },
};

function lines(of: readonly string[]): string {
  return `${of.join("\n")}\n`;
}

function pathOf({ source, typescript }: Project): string {
  return join(source, `webhooks.${typescript ? "ts" : "mjs"}`);
}

function importConfig(project: Project, from: string, names: string): string {
  const to = posix.relative(posix.dirname(from.replaceAll("\\", "/")), "onceward.config");
  const extension = project.typescript ? project.extension : ".mjs";
  return `import { ${names} } from "${to.startsWith(".") ? to : `./${to}`}${extension}";`;
}
