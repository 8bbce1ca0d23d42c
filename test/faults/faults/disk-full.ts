import { setTimeout as wait } from "node:timers/promises";
import pg from "pg";
import { type PostgresServer, startPostgres } from "../../support/postgres-server.ts";
import { type Fault, scene } from "../fault.ts";
import { Stage } from "../stage.ts";
import { mountTmpfs } from "../tmpfs.ts";

/** Enough for the server, its log of the last minutes and the events of a run. */
const megabytes = 256;

/** Tables that cannot grow are errors of statements; a log that cannot grow takes the whole server down. */
export const diskFull: Fault = {
  name: "disk-full",
  what: "Postgres on a small tmpfs that is filled to the last byte, and emptied again",
  open: (options) =>
    scene(async (later) => {
      const disk = await mountTmpfs(megabytes);
      later(() => disk.unmount());
      const server = await startPostgres({
        version: options.postgres.version,
        within: disk.folder,
        // Small files, so that it soon wants another one.
        walFileMb: 1,
        settings: { max_wal_size: "8MB", min_wal_size: "2MB", wal_recycle: "off", shared_buffers: "16MB" },
      });
      later(() => server.stop());
      const url = await server.createDatabase();
      const stage = await Stage.open({ ...options, url });
      later(() => stage.close());
      return {
        stage,
        async strike(over) {
          disk.fill();
          const { load } = stage;
          // Until it is felt: somebody is told that this cannot be done now.
          await Promise.race([load.notTaken(10), load.more(3_000)]);
          disk.free();
          over();
          await comesBack(server);
        },
      };
    }),
};

/** Without room for its log it may end for good, at once or when it tries to recover. */
async function comesBack(server: PostgresServer): Promise<void> {
  for (;;) {
    if (!server.alive) await server.restart();
    const client = new pg.Client({ connectionString: server.url });
    client.on("error", () => {});
    try {
      await client.connect();
      await client.end();
      return;
    } catch {
      await wait(50);
    }
  }
}
