import type { Role } from "../app-process.ts";
import { type Fault, scene } from "../fault.ts";
import { Stage } from "../stage.ts";

/** One process dies at once, and is started again as a supervisor would. */
function kill(role: Role): Fault {
  return {
    name: `kill-${role}`,
    what: `SIGKILL of a ${role} at any moment; a new one is started`,
    open: (options) =>
      scene(async (later) => {
        const stage = await Stage.open({ ...options, url: await options.postgres.createDatabase() });
        later(() => stage.close());
        return {
          stage,
          async strike(over) {
            const victim = stage.any(role);
            await victim.kill();
            over();
            await victim.start();
          },
        };
      }),
  };
}

export const killServer = kill("server");
export const killWorker = kill("worker");
