import { startPgBouncer } from "../../support/pgbouncer.ts";
import { type Fault, scene } from "../fault.ts";
import { Stage } from "../stage.ts";

/** The pooler that hosted Postgres puts before it: each transaction may run in another session. */
export const pgbouncer: Fault = {
  name: "pgbouncer",
  what: "PgBouncer in transaction mode, killed with SIGKILL and started again",
  open: (options) =>
    scene(async (later) => {
      const url = await options.postgres.createDatabase();
      const bouncer = await startPgBouncer({ upstream: url, poolMode: "transaction", poolSize: 8 });
      later(() => bouncer.stop());
      const stage = await Stage.open({
        ...options,
        url: bouncer.url,
        direct: () => url,
        env: { FAULTS_DIRECT_URL: url },
      });
      later(() => stage.close());
      return {
        stage,
        async strike(over) {
          await bouncer.kill();
          over();
          await bouncer.restart();
        },
      };
    }),
};
