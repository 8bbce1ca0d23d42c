import { type Fault, scene } from "../fault.ts";
import { Stage } from "../stage.ts";

/** The database dies under load, with everything it had in memory, and comes back with crash recovery. */
export const postgres: Fault = {
  name: "postgres",
  what: "kill -9 of Postgres and all its backends, then a restart",
  open: (options) =>
    scene(async (later) => {
      const server = options.postgres;
      const stage = await Stage.open({ ...options, url: await server.createDatabase() });
      later(() => stage.close());
      return {
        stage,
        async strike(over) {
          await server.kill();
          over();
          await server.restart();
        },
      };
    }),
};
