/** What the compiler says of files that are no part of the project: programs of the docs, and what needs generated code. */
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

/** Its complaints, or nothing. The folder must be inside the project, where packages are found. */
export function typecheck(folder: string, files: readonly string[]): Promise<string> {
  const config = {
    extends: resolve("tsconfig.json"),
    compilerOptions: { noEmit: true },
    include: [],
    exclude: [],
    files,
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  return new Promise((done) => {
    const args = [resolve("node_modules/typescript/bin/tsc"), "-p", folder];
    execFile(process.execPath, args, (error, stdout, stderr) => done(error ? stdout + stderr : ""));
  });
}
