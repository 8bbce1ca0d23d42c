import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  describeWith,
  freshDatabase,
  needs,
  type PostgresServer,
  servers,
  startPostgres,
} from "./postgres.ts";

for (const which of ["newest", "oldest"] as const) {
  describeWith(which, `the shared ${which} server`, (database) => {
    it("is of that version", async () => {
      const wanted = servers().at(which === "newest" ? -1 : 0)?.version;
      const [row] = await query(database().url, "select current_setting('server_version_num') as version");
      expect(Math.floor(Number(row?.version) / 10_000)).toBe(wanted);
    });

    it("gives each file an empty database of its own", async () => {
      const other = await freshDatabase(which);
      expect(other.url).not.toBe(database().url);
      await query(database().url, "create table mine ()");
      expect(await query(other.url, "select to_regclass('mine') as mine")).toEqual([{ mine: null }]);
      await other.drop();
      await expect(query(other.url, "select 1")).rejects.toMatchObject({ code: "3D000" });
    });
  });
}

describe("a server of one's own", () => {
  let server: PostgresServer | undefined;

  beforeAll(async () => {
    if (servers().length > 0)
      server = await startPostgres({ settings: { fsync: "on", application_name: "own" } });
  });
  afterAll(() => server?.stop());

  it("has the settings that were asked for", async (context) => {
    await needs.postgres(context);
    expect(await query(server!.url, "show fsync")).toEqual([{ fsync: "on" }]);
  });

  it("keeps what was committed when it is killed, and ends every session", async (context) => {
    await needs.postgres(context);
    const url = await server!.createDatabase();
    await query(url, "create table kept as select 1 as one");
    const client = new pg.Client({ connectionString: url });
    const cut = new Promise<Error>((resolve) => client.once("error", resolve));
    await client.connect();
    const before = server!.pid;

    await server!.kill();
    expect(await cut).toBeInstanceOf(Error);
    await expect(query(url, "select 1")).rejects.toMatchObject({ code: "ECONNREFUSED" });

    await server!.restart();
    expect(server!.pid).not.toBe(before);
    expect(await query(url, "select one from kept")).toEqual([{ one: 1 }]);
  });

  it("restarts cleanly while it runs", async (context) => {
    await needs.postgres(context);
    const before = server!.pid;
    await server!.restart();
    expect(server!.pid).not.toBe(before);
    expect(await query(server!.url, "select 1 as one")).toEqual([{ one: 1 }]);
  });
});

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}
