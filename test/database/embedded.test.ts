import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { embeddedDatabase } from "../../src/database/embedded.ts";
import { pgDatabase, type PgClient } from "../../src/database/pg.ts";
import { createPglite } from "../support/pglite.ts";
import { freshDatabase } from "../support/postgres.ts";
import { program } from "../support/program.ts";
import { scratch } from "../support/scratch.ts";
import { upkeep } from "../../src/database/embedded-upkeep.ts";
import { databaseSuite, type Opened } from "./suite.ts";

const childFile = await program(new URL("embedded-child.ts", import.meta.url));

const folders: string[] = [];
const children: Child[] = [];

function newFolder(): string {
  const folder = mkdtempSync(join(scratch(), "onceward-embedded-"));
  folders.push(folder);
  return join(folder, "nested", "db");
}

afterEach(async () => {
  await Promise.all(children.splice(0).map((child) => child.kill()));
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

interface Said {
  readonly found?: { newest: number; rows: number; ids: number };
  readonly committed?: number;
  readonly refused?: string;
  readonly message?: string;
}

/** A process that works on the embedded database until it is killed. */
class Child {
  readonly process: ChildProcess;
  readonly said: Said[] = [];
  readonly #ended: Promise<unknown>;
  #over = false;
  #wake: () => void = () => {};

  constructor(folder: string) {
    this.process = spawn(process.execPath, ["--liftoff-only", childFile, folder], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const lines = createInterface({ input: this.process.stdout! });
    lines.on("line", (line) => {
      this.said.push(JSON.parse(line) as Said);
      this.#wake();
    });
    this.#ended = Promise.all([once(lines, "close"), once(this.process, "exit")]).finally(() => {
      this.#over = true;
      this.#wake();
    });
    children.push(this);
  }

  /** The first thing it says that is so; rejects if it ends without. */
  async says(isSo: (said: Said) => unknown): Promise<Said> {
    for (;;) {
      const found = this.said.find(isSo);
      if (found) return found;
      if (this.#over) throw new Error(`it ended and said only ${JSON.stringify(this.said)}`);
      await new Promise<void>((woken) => (this.#wake = woken));
    }
  }

  /** Returns when all that it said has been read. */
  async kill(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.#ended;
  }

  get lastCommitted(): number {
    return this.said.findLast((said) => said.committed !== undefined)?.committed ?? 0;
  }
}

describe("the embedded database", () => {
  const parent = mkdtempSync(join(scratch(), "onceward-embedded-"));
  const shared = embeddedDatabase({ folder: join(parent, "db"), log: () => {} });
  afterAll(async () => {
    await shared.close();
    rmSync(parent, { recursive: true });
  });
  databaseSuite("it", { server: false, listens: true }, async (): Promise<Opened<PgClient>> => ({
    database: { ...shared, close: async () => {} },
    run: (tx, statement) => tx.query(statement),
    end: async () => {},
  }));

  it("tells once what it does, and keeps everything between two starts", async () => {
    const folder = newFolder();
    const told: string[] = [];
    for (const expected of ["1", "2"]) {
      const database = embeddedDatabase({ folder, log: (line) => told.push(line) });
      await database.query("create table if not exists kept (id text)");
      await database.query("insert into kept values ('a row')");
      const { rows } = await database.query("select count(*)::text as kept from kept");
      expect(rows).toEqual([{ kept: expected }]);
      await database.close();
    }
    expect(
      told.filter((line) => line.startsWith(`Preparing an embedded Postgres in ${folder}, once`)),
    ).toHaveLength(1);
  });

  it("keeps others from reading it, and git from taking it", async () => {
    const folder = newFolder();
    const database = embeddedDatabase({ folder, log: () => {} });
    await database.query("select 1");
    await database.close();
    expect(statSync(folder).mode & 0o077).toBe(0);
    expect(readdirSync(folder)).toContain(".gitignore");
  });

  it("answers to handlers as pg does", async () => {
    const statements: [string, unknown[]?][] = [
      [
        "create table same (id int primary key, big bigint, at timestamptz, day date, doc jsonb, raw bytea, list text[], n numeric)",
      ],
      ["insert into same (id) values (1), (2); insert into same (id) values (3)"],
      [
        "update same set big = $1, at = $2, day = $3, doc = $4, raw = $5, list = $6, n = $7 where id < 3",
        [
          "9007199254740993",
          new Date("2026-11-16T10:00:00.123Z"),
          "2026-11-16",
          { a: [1, "x"] },
          Buffer.from([0, 255]),
          ["a", null, '"'],
          "1.50",
        ],
      ],
      ["select * from same order by id"],
      ["select * from same where id = $1", [99]],
      ["insert into same (id) values ($1) on conflict do nothing returning id", [1]],
      ["insert into same (id) values ($1) on conflict do nothing returning id", [4]],
      ["select count(*), sum(id), true as yes, 1.5::float8 as float, now() is not null as now from same"],
      ["delete from same where id = $1", [4]],
      ["drop table same"],
    ];
    const answers = (database: Database<PgClient>): Promise<unknown> =>
      database.transaction(async (tx) => {
        const all: unknown[] = [];
        for (const [text, values] of statements) {
          const answer = await tx.query(text, values);
          const { rows, rowCount, command } = Array.isArray(answer) ? answer.at(-1) : answer;
          all.push({ rows, rowCount, command });
        }
        return all;
      });
    const fresh = await freshDatabase();
    const server = pgDatabase(fresh.url);
    try {
      expect(await answers(shared)).toEqual(await answers(server));
    } finally {
      await server.close();
      await fresh.drop();
    }
  });

  it("says database_nested for a statement beside its open transaction", async () => {
    const database = embeddedDatabase({ folder: newFolder(), log: () => {} });
    await database.transaction(async () => {
      await expect(database.query("select 1")).rejects.toMatchObject({ code: "database_nested" });
    });
    await database.close();
  });

  it("is over once it is closed, also where it was never opened", async () => {
    const folder = newFolder();
    const database = embeddedDatabase({ folder, log: () => {} });
    await database.close();
    await expect(database.query("select 1")).rejects.toMatchObject({ code: "database_unavailable" });
    expect(existsSync(folder)).toBe(false);
  });
});

describe("a kill", () => {
  // The moments are random on purpose: any of them must do. A failure shows the one it happened at.
  it.each(Array.from({ length: 3 }, () => Math.round(Math.random() * 1_800)))(
    "%i ms into the first start leaves a folder that the next start can use",
    async (moment) => {
      const folder = newFolder();
      const first = new Child(folder);
      await wait(moment);
      await first.kill();
      const second = new Child(folder);
      const { found } = await second.says((said) => said.found);
      expect(found!.newest).toBeGreaterThanOrEqual(first.lastCommitted);
      await second.says((said) => said.committed);
    },
  );

  it(
    "at any moment loses nothing that was acknowledged, and no half of anything is there",
    { timeout: 180_000 },
    async () => {
      const folder = newFolder();
      let acknowledged = 0;
      for (let round = 0; round < 6; round++) {
        const child = new Child(folder);
        const { found } = await child.says((said) => said.found);
        expect(found!.newest).toBeGreaterThanOrEqual(acknowledged);
        expect(found).toMatchObject({ ids: found!.newest, rows: 2 * found!.newest });
        const more = Math.floor(Math.random() * 40);
        await child.says((said) => (said.found && more === 0) || said.committed === found!.newest + more);
        await wait(Math.random() * 5);
        await child.kill();
        acknowledged = Math.max(found!.newest, child.lastCommitted);
      }
      expect(acknowledged).toBeGreaterThan(0);
    },
  );

  it("while the folder was being made leaves nothing that a start takes for the database", async () => {
    const folder = newFolder();
    mkdirSync(join(folder, "data.new", "base"), { recursive: true });
    writeFileSync(join(folder, "data.new", "PG_VERSION"), "18\n");
    const database = embeddedDatabase({ folder, log: () => {} });
    await expect(database.query("select 'fine' as it")).resolves.toEqual({ rows: [{ it: "fine" }] });
    await database.close();
    expect(readdirSync(folder).filter((name) => name.startsWith("data"))).toEqual(["data"]);
  });
});

describe("a folder that is open", () => {
  it("is refused to another process, with the holder's pid, until the holder is gone", async () => {
    const folder = newFolder();
    const holder = new Child(folder);
    await holder.says((said) => said.committed);
    const database = embeddedDatabase({ folder, log: () => {} });
    await expect(database.query("select 1")).rejects.toMatchObject({
      code: "database_locked",
      message: expect.stringContaining(`process ${holder.process.pid}.`),
    });
    await holder.kill();
    const { rows } = await database.query("select max(id) as newest from pair");
    expect(rows[0]?.["newest"]).toBeGreaterThanOrEqual(holder.lastCommitted);

    const late = new Child(folder);
    const { message } = await late.says((said) => said.refused === "database_locked");
    expect(message).toContain(`process ${process.pid}.`);
    await database.close();
    const next = new Child(folder);
    await next.says((said) => said.committed);
  });

  it("is refused to the same process too", async () => {
    const folder = newFolder();
    const first = embeddedDatabase({ folder, log: () => {} });
    const second = embeddedDatabase({ folder, log: () => {} });
    await first.query("select 1");
    await expect(second.query("select 1")).rejects.toMatchObject({
      code: "database_locked",
      message: expect.stringContaining("This process has"),
    });
    await first.close();
    await expect(second.query("select 1 as one")).resolves.toEqual({ rows: [{ one: 1 }] });
    await second.close();
  });
});

describe("upkeep", () => {
  it("removes dead rows and writes a checkpoint, which the embedded Postgres never does by itself", async () => {
    const db = await createPglite();
    await db.exec("create table busy (id int primary key, n int, filler text)");
    for (let i = 0; i < 12; i++) {
      await db.exec(`insert into busy select g, 0, repeat('x', 200) from generate_series(1, 20000) g
                     on conflict (id) do update set n = busy.n + 1`);
    }
    const look = async (): Promise<{ dead: number; log: number } | undefined> => {
      const { rows } = await db.query<{ dead: number; log: number }>(`
        select n_dead_tup as dead, pg_wal_lsn_diff(pg_current_wal_lsn(), redo_lsn)::int8 as log
        from pg_stat_user_tables, pg_control_checkpoint() where relname = 'busy'`);
      return rows[0];
    };
    const before = await look();
    expect(before!.dead).toBeGreaterThan(100_000);
    expect(before!.log).toBeGreaterThan(64 * 1024 * 1024);
    await db.query("select pg_stat_force_next_flush()"); // It counts dead rows a moment later.
    await upkeep(db);
    const after = await look();
    expect(after!.dead).toBe(0);
    expect(after!.log).toBeLessThan(1024 * 1024);
    await db.close();
  });
});
