import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { lockFolder } from "../../src/database/folder-lock.ts";
import { liveness, thisProcess } from "../../src/database/process-identity.ts";
import { program } from "../support/program.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "onceward-lock-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const take = (silenceMs?: number) =>
  lockFolder(folder, { shownAs: "./db", log: () => {}, ...(silenceMs !== undefined && { silenceMs }) });
const held = { code: "database_locked" };
const leave = (content: unknown, number = 7): void =>
  writeFileSync(
    join(folder, `lock.${number}`),
    typeof content === "string" ? content : JSON.stringify(content),
  );

describe("the lock of a folder", () => {
  it("is refused while it is held, and given again once it is released", async () => {
    const first = await take();
    await expect(take()).rejects.toMatchObject(held);
    first.release();
    const second = await take();
    await expect(take()).rejects.toMatchObject(held);
    second.release();
    (await take()).release();
  });

  it("leaves one file behind, however often it was taken", async () => {
    for (let i = 0; i < 5; i++) (await take()).release();
    expect(readdirSync(folder)).toEqual(["lock.5"]);
  });

  it(
    "is held by one of many processes that want it at once, also when holders die",
    { timeout: 180_000 },
    async () => {
      const child = [await program(new URL("lock-child.ts", import.meta.url)), folder, "60"];
      const runs = await Promise.all(
        Array.from({ length: 4 }, () => promisify(execFile)(process.execPath, child, { encoding: "utf8" })),
      );
      const results = runs.map(({ stdout }) => JSON.parse(stdout) as { won: number; violations: number });
      expect(results).toEqual(results.map(() => expect.objectContaining({ won: 60, violations: 0 })));
    },
  );

  it("is taken from a process that is gone", async () => {
    leave({ ...thisProcess(), pid: 4_194_305 });
    (await take()).release();
    expect(readdirSync(folder)).toEqual(["lock.8"]);
  });

  it("is taken from a process whose id belongs to another one by now", async () => {
    leave({ ...thisProcess(), started: "1" });
    (await take()).release();
  });

  it("is taken from a process of the time before the machine was started anew", async () => {
    leave({ ...thisProcess(), boot: "another start" });
    (await take()).release();
  });

  it.each(["", "{", "[]", "null", '{"pid":"1","host":"x"}', '{"pid":-1,"host":"x"}'])(
    "is free where its file holds %j",
    async (content) => {
      leave(content);
      (await take()).release();
    },
  );

  it("ignores other files in the folder", async () => {
    writeFileSync(join(folder, "lock.x"), "");
    writeFileSync(join(folder, "lock.99.part"), JSON.stringify(thisProcess()));
    (await take()).release();
    expect(readdirSync(folder)).toContain("lock.1");
  });
});

describe("a holder in another container, whose processes cannot be seen", () => {
  const elsewhere = { ...thisProcess(), host: "another-container", namespace: "pid:[1]", pid: 1 };

  it("keeps the folder while it shows that it lives", async () => {
    leave(elsewhere);
    const beat = setInterval(() => utimesSync(join(folder, "lock.7"), new Date(), new Date()), 50);
    try {
      await expect(take(20_000)).rejects.toMatchObject({
        ...held,
        message: expect.stringContaining("another-container"),
      });
    } finally {
      clearInterval(beat);
    }
  });

  it("loses it after a silence", async () => {
    leave(elsewhere);
    (await take(300)).release();
  });

  it("is shown that this process lives", async () => {
    const lock = await take();
    const file = join(folder, "lock.1");
    const long = new Date(0);
    utimesSync(file, long, long);
    for (let tries = 0; tries < 100 && statSync(file).mtimeMs === 0; tries++) await wait(100);
    expect(statSync(file).mtimeMs).toBeGreaterThan(0);
    lock.release();
  });
});

describe("the liveness of a process", () => {
  it("knows this process", () => {
    expect(liveness(thisProcess())).toBe("alive");
  });

  it("takes a dead process for dead although nobody has asked for it", async () => {
    if (process.platform !== "linux") return;
    // The shell becomes the second sleep, which does not know that it has a child.
    const parent = spawn("sh", ["-c", "sleep 600 & echo $!; exec sleep 600"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    try {
      const [line] = (await once(parent.stdout, "data")) as [Buffer];
      const pid = Number(line.toString());
      const { started } = {
        started: readFileSync(`/proc/${pid}/stat`, "utf8")
          .replace(/^.*\) /s, "")
          .split(" ")[19]!,
      };
      const holder = { ...thisProcess(), pid, started };
      expect(liveness(holder)).toBe("alive");
      process.kill(pid, "SIGKILL");
      while (!/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"))) await wait(10);
      expect(liveness(holder)).toBe("dead");
    } finally {
      parent.kill("SIGKILL");
    }
  });
});
