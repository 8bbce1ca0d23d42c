/** What `onceward init` would write, and what is left to do by hand. */
import { databaseLines } from "./database-lines.ts";
import { mountFor } from "./mount.ts";
import type { Manager, Project } from "./project.ts";

export interface PlannedFile {
  /** From the project's folder. */
  readonly path: string;
  readonly text: string;
}

export interface Plan {
  readonly files: readonly PlannedFile[];
  /** The command that installs what is missing; undefined where nothing is. */
  readonly install?: string | undefined;
  readonly todo: readonly string[];
}

const installs: Readonly<Record<Manager, string>> = {
  npm: "npm install",
  pnpm: "pnpm add",
  yarn: "yarn add",
  bun: "bun add",
};
const runs: Readonly<Record<Manager, string>> = {
  npm: "npx",
  pnpm: "pnpm exec",
  yarn: "yarn",
  bun: "bunx",
};

export function planFor(project: Project): Plan {
  const mount = mountFor(project);
  const run = runs[project.manager];
  const missing = packagesFor(project).filter((name) => !project.dependencies.has(name));
  return {
    files: [configFile(project), ...(mount ? [mount] : [])].map(({ path, text }) => ({ path, text })),
    install: missing.length > 0 ? `${installs[project.manager]} ${missing.join(" ")}` : undefined,
    todo: [
      ...(mount ? [mount.todo] : []),
      "Set STRIPE_WEBHOOK_SECRET (Stripe Dashboard, Webhooks) and DATABASE_URL where the process starts.",
      `Make the ledger's tables: ${run} onceward migrate. Or print them for your own migrations: ${run} onceward sql.`,
      "Keep .onceward/ out of your repository: add it to .gitignore.",
      `Look whether all is well: ${run} onceward doctor. Try it: ${run} onceward serve, then ${run} onceward trigger checkout.session.completed.`,
    ],
  };
}

function packagesFor(project: Project): string[] {
  // A configuration in TypeScript is read by Node itself from 22.18 on, before that by jiti.
  const reader = project.typescript && !readsTypescript(process.versions.node) ? ["jiti"] : [];
  return ["onceward", "stripe", ...databaseLines(project).packages, ...reader];
}

function readsTypescript(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > 22 || (major === 22 && minor >= 18);
}

/** Everything in one file, so that it can be loaded without knowing how the project names its own files. */
function configFile(project: Project): PlannedFile {
  const { imports, before, argument, write } = databaseLines(project);
  const own = [
    'import { createOnce, defineConfig } from "onceward";',
    'import { stripe } from "onceward/stripe";',
  ];
  const packages = [...own, ...imports].toSorted((a, b) => (sourceOf(a) < sourceOf(b) ? -1 : 1));
  return {
    path: `onceward.config.${project.typescript ? "ts" : "mjs"}`,
    text: `${packages.join("\n")}

${before.map((line) => `${line}\n`).join("")}export const once = createOnce(${argument});

export const billing = once.source(stripe({ secrets: { env: "STRIPE_WEBHOOK_SECRET" } }));

// One handler a type of event. What it writes through \`tx\`, the jobs it enqueues and the event's completion are one
// transaction: all of it happens, once, or none of it.
billing.on("checkout.session.completed", async ({ event, once: takes }) => {
  const session = event.data.object;
  // True for whoever brings this fact first, whatever event it is in.
  if (!(await takes(\`order:\${session.id}\`))) return;
  // Take \`tx\` from the argument, and write your rows:
  //   ${write}
});

export default defineConfig({ once });
`,
  };
}

function sourceOf(line: string): string {
  return /from "([^"]+)"/.exec(line)?.[1] ?? line;
}
