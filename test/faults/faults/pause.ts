import { setTimeout as wait } from "node:timers/promises";
import { type Fault, scene } from "../fault.ts";
import { Stage } from "../stage.ts";

/** A process stands still for longer than its leases, and goes on as if nothing had been: a zombie. */
export const pause: Fault = {
  name: "pause",
  what: "SIGSTOP of a server or a worker for one and a half leases, then SIGCONT",
  open: (options) =>
    scene(async (later) => {
      const stage = await Stage.open({ ...options, url: await options.postgres.createDatabase() });
      later(() => stage.close());
      return {
        stage,
        async strike() {
          const victim = stage.any();
          victim.signal("SIGSTOP");
          await wait(options.size.leaseMs * 1.5);
          victim.signal("SIGCONT");
        },
      };
    }),
};
