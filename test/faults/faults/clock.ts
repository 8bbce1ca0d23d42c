import { type Fault, scene } from "../fault.ts";
import { Stage } from "../stage.ts";

/** Every process has another idea of the time, changes it, and takes over from others: the database's clock counts. */
export const clock: Fault = {
  name: "clock",
  what: "clocks of all processes wrong by up to twelve hours and set to another time; one is killed then",
  open: (options) =>
    scene(async (later) => {
      const stage = await Stage.open({
        ...options,
        url: await options.postgres.createDatabase(),
        env: { FAULTS_CLOCK: String(options.random.between(1, 1_000_000)) },
      });
      later(() => stage.close());
      return {
        stage,
        async strike(over) {
          for (const process of stage.processes) process.signal("SIGUSR2");
          await stage.load.more(5);
          const victim = stage.any();
          await victim.kill();
          over();
          await victim.start();
        },
      };
    }),
};
