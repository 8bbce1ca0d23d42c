/** Where databases of tests keep their data: in memory where there is plenty, since writing it to a disk costs the kernel much. */
import { accessSync, constants, statfsSync } from "node:fs";
import { freemem, tmpdir } from "node:os";

const memory = "/dev/shm";
/** Far more than all tests together leave lying around at once. In bytes. */
const plenty = 8 * 2 ** 30;

/** An existing folder. What is in it is lost when the machine stops, so tests of durability against that must not use it. */
export function scratch(): string {
  return inMemory() ? memory : tmpdir();
}

function inMemory(): boolean {
  // A folder that somebody chose, or a container that may not have what the machine has.
  if (process.env["TMPDIR"] || Math.min(freemem(), process.constrainedMemory() || Infinity) < plenty)
    return false;
  try {
    accessSync(memory, constants.W_OK);
    const { bavail, bsize } = statfsSync(memory);
    return bavail * bsize > plenty;
  } catch {
    return false;
  }
}
