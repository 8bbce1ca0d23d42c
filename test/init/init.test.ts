import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import express from "express";
import { fastify } from "fastify";
import { Hono } from "hono";
import { createJiti } from "jiti";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Once } from "../../src/once.ts";
import type { Receiver } from "../../src/receive/delivery.ts";
import { event, SECRET, signature, type StripeEvent } from "../handler/support.ts";
import { onceward } from "../cli/command.ts";
import { describeWith } from "../support/postgres.ts";
import { planFor } from "../../src/init/plan.ts";
import { detectProject, type Library } from "../../src/init/project.ts";
import { generateClient } from "../support/prisma.ts";
import {
  checkTypes,
  command,
  type Fixture,
  serve,
  workspace,
  makeProject,
  removeProjects,
  write,
} from "./support.ts";

afterAll(removeProjects);

const bundler = { module: "esnext", moduleResolution: "bundler" };
const nodenext = { module: "nodenext" };

describe("what a project is made of", () => {
  it.each([
    ["next", ["next", "hono"]],
    ["fastify", ["fastify"]],
    ["express", ["express"]],
    ["hono", ["hono"]],
    ["none", ["koa"]],
  ])("finds the framework %s", (framework, dependencies) => {
    expect(detectProject(makeProject({ dependencies }))).toMatchObject({ framework });
  });

  it.each<[Library, string[]]>([
    ["prisma", ["@prisma/client", "pg"]],
    ["drizzle", ["drizzle-orm", "postgres"]],
    ["kysely", ["kysely", "pg"]],
    ["postgres", ["postgres", "@supabase/supabase-js"]],
    ["supabase", ["@supabase/supabase-js"]],
    ["pg", ["pg"]],
    ["none", []],
  ])("finds the database library %s", (library, dependencies) => {
    expect(detectProject(makeProject({ dependencies }))).toMatchObject({ library });
  });

  it.each([
    ["pnpm", { files: { "pnpm-lock.yaml": "" } }],
    ["yarn", { files: { "yarn.lock": "" } }],
    ["bun", { files: { "bun.lock": "" } }],
    ["npm", { files: { "package-lock.json": "{}" } }],
    ["pnpm", { manifest: { packageManager: "pnpm@10.0.0" } }],
  ])("finds the package manager %s", (manager, fixture: Fixture) => {
    const project = detectProject(makeProject(fixture));
    expect(project).toMatchObject({ manager });
    expect(planFor(project!).install).toMatch(new RegExp(`^${manager} (install|add) onceward `));
  });

  it("reads a package.json as npm does, and says of a broken one only that it is", () => {
    const folder = makeProject({ files: { "package.json": '\uFEFF{ "dependencies": { "hono": "4" } }' } });
    expect(detectProject(folder)).toMatchObject({ framework: "hono" });
    for (const broken of ["", "null", '"text"', '{ "_authToken": "secret" ']) {
      write(folder, "package.json", broken);
      expect(() => detectProject(folder)).toThrow(
        /package\.json is no JSON object\. Mend it first: npm needs it, too\.$/,
      );
    }
  });

  it("finds the lockfile of a workspace around it", () => {
    const folder = makeProject({ files: { "pnpm-lock.yaml": "", "apps/shop/package.json": "{}" } });
    expect(detectProject(join(folder, "apps/shop"))).toMatchObject({ manager: "pnpm" });
  });

  it.each([
    ["", bundler],
    [".js", nodenext],
    [".ts", { ...bundler, allowImportingTsExtensions: true }],
  ])("finds that files name each other with %s", (extension, tsconfig) => {
    expect(detectProject(makeProject({ tsconfig }))).toMatchObject({ typescript: true, extension });
  });

  it("knows a folder without a package.json as no project", () => {
    expect(detectProject(join(makeProject({}), "nothing"))).toBe(undefined);
  });
});

describe("onceward init", () => {
  it("shows what it would write and changes nothing: in a dry run, and where nobody can be asked", async () => {
    const folder = makeProject({
      dependencies: ["express", "pg"],
      tsconfig: nodenext,
      files: { "src/a.ts": "" },
    });
    const before = readdirSync(folder, { recursive: true });
    const dry = await onceward(["init", folder, "--dry-run"]);
    expect(dry).toMatchObject({ code: 0 });
    expect(dry.stdout).toContain("Found: express, pg, npm, TypeScript.");
    expect(dry.stdout).toContain("+ onceward.config.ts");
    expect(dry.stdout).toContain("+ src/webhooks.ts");
    expect(dry.stdout).toContain('webhooks.post("/webhooks/stripe", expressHandler(billing));');
    const unasked = await onceward(["init", folder]);
    expect(unasked).toMatchObject({ code: 1, stderr: expect.stringContaining("Nothing was changed") });
    expect(readdirSync(folder, { recursive: true })).toEqual(before);
  });

  it("never overwrites a file, and does nothing where there is a configuration", async () => {
    const folder = makeProject({
      dependencies: ["hono"],
      tsconfig: bundler,
      files: { "webhooks.ts": "mine" },
    });
    const { code, stdout } = await onceward(["init", folder, "--yes", "--json"]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      detected: { framework: "hono", library: "none", manager: "npm", typescript: true },
      written: ["onceward.config.ts"],
      left: ["webhooks.ts"],
      install: expect.stringContaining("npm install onceward stripe"),
    });
    expect(readFileSync(join(folder, "webhooks.ts"), "utf8")).toBe("mine");
    const again = await onceward(["init", folder, "--yes"]);
    expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining("is there already") });
  });

  const schema = `generator client {
  provider = "prisma-client"
  output = "../generated"
}
datasource db {
  provider = "postgresql"
}
model Order {
  session String @id
}
`;
  const kinds: readonly (readonly [string, object, Readonly<Record<string, Fixture>>])[] = [
    [
      '"./a.js"',
      nodenext,
      {
        "express-pg": { dependencies: ["express", "pg"], files: { "src/a.ts": "" } },
        "express-postgres": { dependencies: ["express", "postgres"] },
        "fastify-drizzle-postgres": { dependencies: ["fastify", "drizzle-orm", "postgres"] },
        none: {},
      },
    ],
    [
      '"./a"',
      bundler,
      {
        "fastify-drizzle-pg": { dependencies: ["fastify", "drizzle-orm", "pg"] },
        "next-supabase": { dependencies: ["next", "@supabase/ssr"], files: { "src/app/a.ts": "" } },
      },
    ],
    [
      '"./a.ts"',
      { ...bundler, allowImportingTsExtensions: true },
      {
        "hono-kysely": { dependencies: ["hono", "kysely", "pg"] },
        "hono-prisma": { dependencies: ["hono", "prisma"], files: { "prisma/schema.prisma": schema } },
      },
    ],
  ];

  it.each(kinds)(
    "writes files that type-check, where files name each other like %s",
    (_, tsconfig, projects) => {
      const folder = workspace();
      for (const [name, fixture] of Object.entries(projects)) {
        const project = makeProject({ ...fixture, tsconfig }, join(folder, name));
        if (existsSync(join(project, "prisma"))) {
          write(project, "schema.prisma", schema.replace("../", "./"));
          generateClient(project);
        }
        for (const { path, text } of planFor(detectProject(project)!).files) write(project, path, text);
      }
      const written = readdirSync(folder, { recursive: true }).filter((path) =>
        /webhooks|config\.ts$|route/.test(String(path)),
      );
      expect(written.length).toBeGreaterThanOrEqual(Object.keys(projects).length);
      checkTypes(makeProject({ tsconfig }, folder));
    },
  );
});

describeWith("newest", "what onceward init has written", (database) => {
  const paid = (): { event: StripeEvent; body: string } => {
    const made = event("checkout.session.completed");
    return { event: made, body: JSON.stringify(made) };
  };
  /** Writes the files into a project, loads the mount, and gives it to `use`. */
  const withMount = async (
    dependencies: readonly string[],
    use: (mount: {
      webhooks: never;
      POST: (request: Request) => Promise<Response>;
    }) => Promise<{ fetch: (request: Request) => Promise<Response> | Response; close?: () => unknown }>,
  ): Promise<void> => {
    const folder = workspace();
    const project = makeProject({ dependencies, tsconfig: bundler }, join(folder, "shop"));
    const { files } = planFor(detectProject(project)!);
    for (const { path, text } of files) write(project, path, text);
    const jiti = createJiti(project);
    const { once } = await jiti.import<{ once: Once }>(join(project, files[0]!.path));
    const mount = await jiti.import<never>(join(project, files[1]!.path));
    const app = await use(mount);
    try {
      const { event: sent, body } = paid();
      const send = async (signed: string): Promise<number> => {
        const headers = { "stripe-signature": signed, "content-type": "application/json" };
        const answer = await app.fetch(
          new Request("http://127.0.0.1/webhooks/stripe", { method: "POST", body, headers }),
        );
        return answer.status;
      };
      expect(await send(signature(body))).toBe(200);
      expect(await send(signature(body, "whsec_another"))).toBe(400);
      const key = `checkout.session.completed:${sent.data.object.id}`;
      expect(await once.engine.ledger.verbs.look({ scope: "stripe", key })).toMatchObject({ state: "done" });
    } finally {
      await app.close?.();
      await once.stop();
    }
  };
  beforeEach(() => {
    process.env["DATABASE_URL"] = database().url;
    process.env["STRIPE_WEBHOOK_SECRET"] = SECRET;
  });
  afterEach(() => {
    delete process.env["DATABASE_URL"];
    delete process.env["STRIPE_WEBHOOK_SECRET"];
  });

  /** Sends a request to a server on a port of its own. */
  const over = async (
    server: Server,
  ): Promise<{ fetch: (request: Request) => Promise<Response>; close: () => void }> => {
    if (!server.listening) await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    return {
      fetch: async (request) => {
        const { method, headers } = request;
        return fetch(`http://127.0.0.1:${port}/webhooks/stripe`, {
          method,
          headers,
          body: await request.text(),
        });
      },
      close: () => void server.close(),
    };
  };

  it("runs on Express, before express.json()", () =>
    withMount(["express", "pg"], async ({ webhooks }) =>
      over(createServer(express().use(webhooks).use(express.json()))),
    ));

  it("runs on Fastify", () =>
    withMount(["fastify", "postgres"], async ({ webhooks }) => {
      const app = fastify();
      await app.register(webhooks);
      await app.listen({ port: 0, host: "127.0.0.1" });
      const { fetch: send } = await over(app.server);
      return { fetch: send, close: () => app.close() };
    }));

  it("runs on Hono", () =>
    withMount(["hono", "drizzle-orm", "pg"], async ({ webhooks }) => new Hono().route("/", webhooks)));

  it("runs as a route of Next", () =>
    withMount(["next", "kysely", "pg"], async ({ POST }) => ({ fetch: POST })));

  describe("where the signing secret is not set", () => {
    const unset = /stripe: STRIPE_WEBHOOK_SECRET is not set in the environment/;
    const written = (dependencies: readonly string[]): string => {
      const project = makeProject({ dependencies, tsconfig: bundler }, join(workspace(), "shop"));
      for (const { path, text } of planFor(detectProject(project)!).files) write(project, path, text);
      return project;
    };
    // Elsewhere a secret is made up for development.
    const env = (): Record<string, string> => ({ NODE_ENV: "production", DATABASE_URL: database().url });

    it("is enough for commands that verify nothing, and the doctor and serve name the variable", async () => {
      const project = written(["pg"]);
      expect(await command(project, ["migrate"], env())).toMatchObject({ code: 0 });
      expect(await command(project, ["status"], env())).toMatchObject({ code: 0 });
      const doctor = await command(project, ["doctor", "--json"], env());
      expect(doctor.code).toBe(2);
      const { findings } = JSON.parse(doctor.out) as { findings: { code: string }[] };
      expect(findings).toContainEqual(
        expect.objectContaining({ code: "secret_missing", what: expect.stringMatching(unset) as string }),
      );
      expect(findings.map(({ code }) => code)).toContain("handlers_unproven");
      const served = await command(project, ["serve", "--port", "0"], env());
      expect(served).toMatchObject({ code: 1, out: expect.stringMatching(unset) as string });
    });

    it("is imported, answers 500 and says why, and verifies once the secret is there", async () => {
      delete process.env["STRIPE_WEBHOOK_SECRET"];
      const jiti = createJiti(written(["pg"]));
      const { once, billing } = await jiti.import<{ once: Once; billing: Receiver }>("./onceward.config.ts");
      const troubled: string[] = [];
      once.observe({
        troubled: (error) => void troubled.push(`${(error as { code: string }).code} ${String(error)}`),
      });
      const { body } = paid();
      const send = () => {
        const header = (name: string) => (name === "stripe-signature" ? signature(body) : undefined);
        return billing.receive({ method: "POST", body: Buffer.from(body), header });
      };
      try {
        expect(await send()).toMatchObject({ status: 500 });
        expect(troubled).toEqual([expect.stringMatching(unset)]);
        expect(troubled).toEqual([expect.stringMatching(/^config_invalid /)]);
        process.env["STRIPE_WEBHOOK_SECRET"] = SECRET;
        expect(await send()).toMatchObject({ status: 200 });
      } finally {
        await once.stop();
      }
    });
  });
});

describe("what onceward init has written, without a database", () => {
  it("is served by the command line, on the embedded one", async () => {
    const project = makeProject({ tsconfig: nodenext }, join(workspace(), "shop"));
    const written = await onceward(["init", project, "--yes"]);
    expect(written.code).toBe(0);
    const [, tryIt = ""] =
      /Try it: npx onceward serve, then npx onceward (.+)\.$/m.exec(written.stdout) ?? [];
    const server = serve(project, { STRIPE_WEBHOOK_SECRET: SECRET });
    try {
      const url = await server.listening;
      const body = JSON.stringify(event("checkout.session.completed"));
      const headers = { "stripe-signature": signature(body) };
      const answer = await fetch(url, { method: "POST", body, headers });
      expect([answer.status, await answer.json()]).toEqual([200, { outcome: "accepted" }]);
      const tried = [...tryIt.split(" "), "--url", new URL(url).origin];
      expect(await onceward(tried, { STRIPE_WEBHOOK_SECRET: SECRET })).toMatchObject({ code: 0, stderr: "" });
    } finally {
      await server.stop();
    }
  });
});
