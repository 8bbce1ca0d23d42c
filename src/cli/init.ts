import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { Command, Option } from "commander";
import { type Plan, planFor } from "../init/plan.ts";
import {
  detectProject,
  type Framework,
  frameworks,
  libraries,
  type Library,
  type Project,
} from "../init/project.ts";
import { configIn } from "./config.ts";
import { confirm } from "./confirm.ts";
import { Failure } from "./fail.ts";
import { Output } from "./output.ts";

interface InitOptions {
  readonly framework?: Framework;
  readonly library?: Library;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** `onceward init`: shows what it would write, asks, writes new files and changes none. */
export function initCommand(): Command {
  return new Command("init")
    .description("add Onceward to an existing project: a configuration, a handler and its mount")
    .argument("[folder]", "the project", ".")
    .addOption(new Option("--framework <name>", "instead of the one found").choices(frameworks))
    .addOption(
      new Option("--library <name>", "the database library, instead of the one found").choices(libraries),
    )
    .option("--yes", "write without asking")
    .option("--dry-run", "only show")
    .option("--json", "print one JSON document")
    .action(init);
}

async function init(target: string, options: InitOptions): Promise<void> {
  const out = new Output(options);
  const folder = resolve(target);
  const found = detectProject(folder);
  if (!found) throw new Failure(`${folder} holds no package.json. Name the folder of your project.`);
  const config = configIn(folder);
  if (config) throw new Failure(`${config} is there already. Nothing was changed.`);
  const project: Project = {
    ...found,
    framework: options.framework ?? found.framework,
    library: options.library ?? found.library,
  };
  const plan = planFor(project);
  const taken = plan.files.filter(({ path }) => existsSync(join(folder, path)));
  const files = plan.files.filter((file) => !taken.includes(file));

  if (!out.json)
    process.stdout.write(
      `${shown(
        project,
        plan,
        taken.map(({ path }) => path),
      ).join("\n")}\n`,
    );
  if (!options.dryRun) {
    await confirm(
      `${files.length} new ${files.length === 1 ? "file" : "files"} will be written in ${folder}.`,
      options,
    );
    for (const { path, text } of files) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      // Whatever came there meanwhile is not overwritten either.
      writeFileSync(join(folder, path), text, { flag: "wx" });
    }
  }
  const { framework, library, manager, typescript } = project;
  out.answer(
    {
      dry_run: options.dryRun === true,
      detected: { framework, library, manager, typescript },
      written: options.dryRun ? [] : files.map(({ path }) => path),
      left: taken.map(({ path }) => path),
      files: plan.files,
      install: plan.install ?? null,
      todo: plan.todo,
    },
    () =>
      options.dryRun
        ? "Nothing was changed."
        : [
            `Written: ${files.map(({ path }) => path).join(", ")}.`,
            "",
            "What is left for you:",
            ...steps(plan),
          ],
  );
}

function shown(
  { framework, library, manager, typescript }: Project,
  plan: Plan,
  taken: readonly string[],
): string[] {
  const names = [
    framework === "none" ? "no framework" : framework,
    library === "none" ? "no database library" : library,
    manager,
    typescript ? "TypeScript" : "JavaScript",
  ];
  return [
    `Found: ${names.join(", ")}.`,
    ...plan.files.flatMap(({ path, text }) => [
      "",
      taken.includes(path) ? `${path} is there already, and stays as it is. It would be:` : `+ ${path}`,
      ...text
        .trimEnd()
        .split("\n")
        .map((line) => `  + ${line}`.trimEnd()),
    ]),
    "",
  ];
}

function steps({ install, todo }: Plan): string[] {
  return [...(install ? [`Install: ${install}`] : []), ...todo].map((step, i) => `${i + 1}. ${step}`);
}
