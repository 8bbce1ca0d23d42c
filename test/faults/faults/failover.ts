import { setTimeout as wait } from "node:timers/promises";
import pg from "pg";
import { type PostgresServer, startPostgres } from "../../support/postgres-server.ts";
import { type Fault, scene } from "../fault.ts";
import { Proxy } from "../proxy.ts";
import { Stage } from "../stage.ts";

/** The primary dies for good. Its synchronous standby has everything that was acknowledged, and takes over. */
export const failover: Fault = {
  name: "failover",
  what: "kill -9 of the primary; its synchronous standby is promoted and clients are switched over",
  open: (options) =>
    scene(async (later) => {
      const { version } = options.postgres;
      const settings = { fsync: options.size.fsync ? "on" : "off" };
      const start = async (standbyOf?: PostgresServer): Promise<PostgresServer> => {
        const server = await startPostgres({ version, settings, ...(standbyOf && { standbyOf }) });
        later(() => server.stop());
        return server;
      };
      let primary = await start();
      let standby = await start(primary);
      await waitForEachCommit(primary.url);
      const { pathname } = new URL(await primary.createDatabase());
      const direct = (): string => `postgres://postgres@127.0.0.1:${primary.port}${pathname}`;
      const proxy = await Proxy.start(primary.port, options.random);
      later(() => proxy.close());
      const stage = await Stage.open({ ...options, url: proxy.through(direct()), direct });
      later(() => stage.close());
      let strikes = 0;
      return {
        stage,
        async strike(over) {
          // The one that took over last time has no standby yet.
          if (strikes++ > 0) {
            standby = await start(primary);
            await waitForEachCommit(primary.url);
          }
          const old = primary;
          await old.kill();
          over();
          await standby.promote();
          primary = standby;
          proxy.upstreamPort = primary.port;
          proxy.cutAll();
          await old.stop();
        },
      };
    }),
};

/** From now on a commit is answered when the standby has it on disk too. Resolves once that holds. */
async function waitForEachCommit(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query("alter system set synchronous_standby_names = '*'");
    await client.query("select pg_reload_conf()");
    for (;;) {
      const { rows } = await client.query("select from pg_stat_replication where sync_state = 'sync'");
      if (rows.length > 0) break;
      await wait(50);
    }
    // A commit of our own: what was committed before, while nobody waited, is then there as well.
    await client.query("create table if not exists replicated (at timestamptz)");
  } finally {
    await client.end();
  }
}
