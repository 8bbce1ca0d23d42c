import { type Fault, scene } from "../fault.ts";
import { Proxy } from "../proxy.ts";
import { Stage } from "../stage.ts";

/** A machine on the way forgets connections and says nothing: nobody is told, ever. New ones work. */
export const hang: Fault = {
  name: "hang",
  what: "all connections to Postgres hang without a reset",
  open: (options) =>
    scene(async (later) => {
      const url = await options.postgres.createDatabase();
      const proxy = await Proxy.start(options.postgres.port, options.random);
      later(() => proxy.close());
      const stage = await Stage.open({
        ...options,
        url: proxy.through(url),
        direct: () => url,
        // Long enough that on a busy machine nothing else takes so long.
        env: { FAULTS_TIMEOUT_MS: "5000" },
      });
      later(() => stage.close());
      return {
        stage,
        // It does not get better by itself: whoever waits for an answer has to give up.
        async strike() {
          proxy.hang();
        },
      };
    }),
};
