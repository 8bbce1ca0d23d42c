/**
 * One of several processes that all want the same folder, again and again. Who has it checks that nobody else does;
 * then it gives it up, or leaves it behind as a process does that dies.
 */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { OncewardError } from "../../src/errors.ts";
import { lockFolder } from "../../src/database/folder-lock.ts";
import { thisProcess } from "../../src/database/process-identity.ts";

const [folder = "", rounds = "0"] = process.argv.slice(2);
const inside = join(folder, "inside");
let won = 0;
let refused = 0;
let violations = 0;

while (won < Number(rounds)) {
  try {
    const lock = await lockFolder(folder, { shownAs: folder, log: () => {} });
    won++;
    try {
      writeFileSync(inside, "", { flag: "wx" });
    } catch {
      violations++;
    }
    rmSync(inside, { force: true });
    if (won % 2 === 0) lock.release();
    else leaveBehind();
  } catch (error) {
    if (!(error instanceof OncewardError)) throw error;
    refused++;
  }
}
console.log(JSON.stringify({ won, refused, violations }));
process.exit();

/** The lock of a process that is no more: the highest id there can be, plus one. */
function leaveBehind(): void {
  const numbers = readdirSync(folder).map((name) => Number(/^lock\.(\d+)$/.exec(name)?.[1] ?? 0));
  const file = join(folder, `lock.${Math.max(...numbers)}`);
  writeFileSync(`${file}.${process.pid}.dead`, JSON.stringify({ ...thisProcess(), pid: 4_194_305 }));
  renameSync(`${file}.${process.pid}.dead`, file);
}
