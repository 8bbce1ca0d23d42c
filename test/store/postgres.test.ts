import { type PostgresServer, skipUnless, startPostgres, Unavailable } from "../support/postgres.ts";
import { storeSuite } from "./suite.ts";

// A server of its own: it is killed in the middle.
let starting: Promise<PostgresServer> | undefined;
const postgres = (): Promise<PostgresServer> => (starting ??= startPostgres());

storeSuite({
  name: "a real Postgres",
  needs: (context) => skipUnless(context, postgres),
  restarts: true,
  async open() {
    try {
      const server = await postgres();
      return {
        env: { DATABASE_URL: await server.createDatabase() },
        kill: () => server.kill(),
        restart: () => server.restart(),
        remove: () => server.stop(),
      };
    } catch (error) {
      if (error instanceof Unavailable) return undefined;
      throw error;
    }
  },
});
