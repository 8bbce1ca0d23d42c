/** Whatever is wrong with a command or its configuration: one sentence that says so, exit code 1, no stack. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { onceward, store } from "../store/cli.ts";
import { describeWith } from "../support/postgres.ts";

const cwd = mkdtempSync(join(tmpdir(), "onceward-cli-"));
beforeAll(() => {
  const configs = {
    throws: "throw new Error('no such setting\\nand a second line')",
    empty: "export default 1",
    broken: "export default {{",
  };
  for (const [name, text] of Object.entries(configs)) {
    mkdirSync(join(cwd, name));
    writeFileSync(join(cwd, name, "onceward.config.mjs"), text);
  }
});
afterAll(() => rmSync(cwd, { recursive: true }));

/** A port on which nobody listens. */
const nobody = "127.0.0.1:1";
const away = { DATABASE_URL: `postgres://me:hunter2@${nobody}/shop` };

describe("what is wrong is said in one sentence", () => {
  const cases: [string, string[], Record<string, string>, RegExp][] = [
    [
      "an option that is none",
      ["serve", "--nope"],
      {},
      /^error: unknown option '--nope'\n\(see onceward --help\)$/,
    ],
    ["a command that is none", ["serv"], {}, /^error: unknown command 'serv'/],
    [
      "a URL that is none",
      ["migrate", "--database", "mysql://x"],
      {},
      /^onceward: The database URL cannot be read/,
    ],
    [
      "a database that is away",
      ["migrate"],
      away,
      /^onceward: The database does not answer \(ECONNREFUSED\)\. It was asked for at 127\.0\.0\.1:1, database shop\. Start it/,
    ],
    [
      "a store without its database",
      ["serve", store],
      away,
      /^onceward: The database does not answer .* at 127\.0\.0\.1:1\. Start it/,
    ],
    [
      "a port that is none",
      ["serve", "--port", "x"],
      {},
      /^onceward: PORT is a number from 0 to 65535, not "x"\.$/,
    ],
    ["a folder that is not there", ["serve", "nowhere"], {}, /^onceward: .*nowhere does not exist\./],
    ["a folder without a configuration", ["serve"], {}, /^onceward: .* holds no onceward\.config\.ts\./],
    [
      "a configuration that throws",
      ["serve", "throws"],
      {},
      /^onceward: .* could not be loaded: no such setting$/,
    ],
    ["a configuration that is none", ["serve", "empty"], {}, /^onceward: .* exports no configuration: /],
    [
      "a configuration with an error in it",
      ["serve", "broken"],
      {},
      /^onceward: .* could not be loaded: \S+/,
    ],
    [
      "an API key in place of a signing secret",
      ["serve", store],
      { ...away, STRIPE_WEBHOOK_SECRET: "sk_live_1" },
      /^onceward: stripe: secrets\[0\] is a secret API key/,
    ],
    ["a number that is none", ["storm", "--events", "0"], {}, /^onceward: --events is a whole number from 1/],
    ["a storm on nobody", ["storm", "--url", `http://${nobody}`], {}, /^onceward: Nobody answers at /],
    [
      "an address that is none",
      ["trigger", "payout.created", "--url", "x"],
      {},
      /^onceward: --url is an address/,
    ],
    ["a type without a sample", ["trigger", "nope"], {}, /^onceward: There is no sample of nope\. Known: /],
  ];
  it.each(cases)("%s", async (_, args, env, sentence) => {
    const { code, stdout, stderr } = await onceward(args, { cwd, env });
    expect(stderr.trimEnd()).toMatch(sentence);
    expect(stderr).not.toMatch(/^\s+at /m);
    expect(stderr).not.toMatch(/sk_live_1|hunter2/);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  });

  it("and with --debug, where it comes from", async () => {
    const { code, stderr } = await onceward(["serve", "throws", "--debug"], { cwd });
    expect(stderr).toMatch(/no such setting[^]*\n\s+at .*onceward\.config\.mjs/);
    expect(code).toBe(1);
  });
});

describe("a server that", () => {
  /** What a command says of a server, and what the server was asked. */
  async function against(args: readonly string[], answer: (path: string) => [number, string]) {
    const asked: string[] = [];
    const server = createServer((request, response) => {
      const path = request.url?.split("?", 1)[0] ?? "";
      asked.push(`${request.method} ${path}`);
      const [status, body] = path === "/healthz" ? [200, "{}"] : answer(path);
      response.writeHead(status, { connection: "close" }).end(body);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const said = await onceward([...args, "--url", url], { cwd });
    server.closeAllConnections();
    server.close();
    return { ...said, asked };
  }

  it("does not tell what becomes of a storm is sent none", async () => {
    const { code, stderr, asked } = await against(["storm"], () => [404, ""]);
    expect(stderr).toMatch(/^onceward: The server does not tell what becomes of a storm/);
    expect({ code, asked }).toEqual({ code: 1, asked: ["GET /healthz", "GET /storm"] });
  });

  it("has another secret is told by its answer, and by what to do", async () => {
    const { code, stdout, stderr } = await against(["trigger", "invoice.paid"], () => [
      400,
      '{"error":{"code":"signature_mismatch","message":"…"}}',
    ]);
    expect(stdout).toMatch(/: 400 signature_mismatch\n$/);
    expect(stderr).toMatch(/^onceward: The server did not take it\. It has another STRIPE_WEBHOOK_SECRET/);
    expect(code).toBe(1);
  });
});

describeWith("newest", "a port that is taken", (database) => {
  it("is said in one sentence", async () => {
    const taker = createServer();
    await new Promise<void>((resolve) => taker.listen(0, "127.0.0.1", resolve));
    const { port } = taker.address() as AddressInfo;
    const { code, stderr } = await onceward(["serve", store, "--port", String(port)], {
      cwd,
      env: { DATABASE_URL: database().url, STRIPE_WEBHOOK_SECRET: "whsec_1" },
    });
    taker.close();
    expect(stderr).toBe(`onceward: Port ${port} on 127.0.0.1 is taken. Set PORT to another one.\n`);
    expect(code).toBe(1);
  });
});
