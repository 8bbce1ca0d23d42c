import { Readable } from "node:stream";
import nodemailer, { type Transport } from "nodemailer";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { mailOnce } from "../../src/mail/mail.ts";
import { stepKey } from "../../src/step/key.ts";
import type { Step } from "../../src/step/step.ts";
import { describeSteps, scope } from "../step/support.ts";
import { type Failure, type MailServer, startMailServer } from "./smtp.ts";

describeSteps("mail once", (bench) => {
  let server: MailServer;
  const transports: { close(): void }[] = [];
  beforeAll(async () => {
    server = await startMailServer();
  });
  afterEach(() => {
    for (const transport of transports.splice(0)) transport.close();
  });
  afterAll(() => server?.close());

  const message = {
    from: "Shop <shop@example.com>",
    to: "ann@example.com",
    subject: "Welcome",
    text: "Hello",
  };
  const mailer = (options: object = {}) => {
    const transport = nodemailer.createTransport({
      host: "127.0.0.1",
      port: server.port,
      ignoreTLS: true,
      auth: { user: "shop", pass: "secret" },
      ...options,
    });
    transports.push(transport);
    return mailOnce(transport);
  };
  const welcome =
    (mail = mailer(), more = {}) =>
    (step: Step<unknown>) =>
      mail(step, "welcome", { ...message, ...more });
  const idOf = (key: string) => `<${stepKey({ scope, key, generation: 1 }, "welcome")}@example.com>`;
  const takenFor = (key: string) => server.taken.filter((id) => id === idOf(key)).length;

  it("takes the step's key as its Message-ID, and keeps what the server said", async () => {
    const ran = await bench().attempt("sent", welcome());
    expect(ran.outcome).toBe("done");
    const messageId = idOf("sent");
    expect(JSON.parse((ran as { result: string }).result)).toMatchObject({
      messageId,
      accepted: ["ann@example.com"],
      rejected: [],
      response: expect.stringMatching(/^250 /),
    });
    expect(server.taken).toContain(messageId);
  });

  const safe: [string, Failure][] = [
    ["hangs up when connected to", { at: "connect" }],
    ["is closed (421) when connected to", { at: "connect", code: 421 }],
    ["hangs up at the login", { at: "login" }],
    ["refuses the login (535)", { at: "login", code: 535 }],
    ["hangs up at the sender", { at: "mail from" }],
    ["hangs up at the recipient", { at: "rcpt to" }],
    ["asks to come again (451) at the recipient", { at: "rcpt to", code: 451 }],
    ["asks to come again (452) after the whole mail", { at: "end", code: 452 }],
  ];
  for (const [name, failure] of safe) {
    it(`is sent again when the server ${name}: it was surely not sent`, async () => {
      const key = `safe ${name}`;
      server.fail(failure);
      expect(await bench().attempt(key, welcome())).toMatchObject({
        outcome: "failed",
        state: "waiting",
        error: { code: "not_done" },
      });
      expect(await bench().attempt(key, welcome())).toMatchObject({ outcome: "done" });
      expect(takenFor(key)).toBe(1);
    });
  }

  for (const failure of [
    { at: "mail from", code: 550 },
    { at: "rcpt to", code: 550 },
    { at: "end", code: 554 },
  ] as const) {
    it(`is dead when the server refuses it for good (${failure.code} at ${failure.at}), without the address in the reason`, async () => {
      const key = `fatal ${failure.at}`;
      server.fail(failure);
      expect(await bench().attempt(key, welcome())).toMatchObject({ outcome: "failed", state: "dead" });
      const { reason } = await bench().look(key);
      expect(reason).toMatch(new RegExp(`^The mail server answered ${failure.code} to `));
      expect(reason).not.toContain("ann@");
      expect(takenFor(key)).toBe(0);
    });
  }

  for (const [name, failure, taken] of [
    ["takes it and hangs up before it says so", { at: "after" }, 1],
    ["hangs up after the whole mail, without taking it", { at: "end" }, 0],
  ] as const) {
    it(`is parked as unknown when the server ${name}, and not sent twice`, async () => {
      const key = `unknown ${name}`;
      server.fail(failure);
      const ran = await bench().attempt(key, welcome());
      expect(ran).toMatchObject({ outcome: "failed", state: "unknown", error: { code: "outcome_unknown" } });
      expect((await bench().look(key))["reason"]).toContain("did not answer after it had got the whole mail");
      expect(takenFor(key)).toBe(taken);
      const decision = taken === 1 ? "done" : "not done";
      const { verbs } = bench().engine.ledger;
      await verbs.resolveStep({ scope, key }, { name: "welcome", decision, value: "{}", actor: "ann" });
      await verbs.replay([{ scope, key }]);
      expect(await bench().attempt(key, welcome())).toMatchObject({ outcome: "done" });
      expect(takenFor(key)).toBe(1);
    });
  }

  it("is sent again when a large one broke off in the middle: no server takes half a mail", async () => {
    const text = "All work and no play.\n".repeat(400_000);
    server.fail({ at: "middle", bytes: 100_000 });
    expect(await bench().attempt("large", welcome(mailer(), { text }))).toMatchObject({
      outcome: "failed",
      state: "waiting",
      error: { code: "not_done" },
    });
    expect(await bench().attempt("large", welcome(mailer(), { text }))).toMatchObject({ outcome: "done" });
    expect(takenFor("large")).toBe(1);
  });

  it("is looked for where the sent mails can be searched", async () => {
    const job = (step: Step<unknown>) =>
      mailer()(step, "welcome", message, {
        unknown: {
          verify: (key) => {
            const messageId = server.taken.find((id) => id.startsWith(`<${key}@`));
            return messageId
              ? { done: true, value: { messageId, accepted: [], rejected: [], response: "found" } }
              : { done: false };
          },
        },
      });
    for (const failure of [{ at: "after" }, { at: "end" }] as const) {
      const key = `verify ${failure.at}`;
      server.fail(failure);
      expect(await bench().attempt(key, job)).toMatchObject({ outcome: "failed", state: "waiting" });
      expect(await bench().attempt(key, job)).toMatchObject({ outcome: "done" });
      expect(takenFor(key)).toBe(1);
    }
  });

  it("is not sent again by a pool on its own", async () => {
    const pool = mailer({ pool: true, maxConnections: 1 });
    server.fail({ at: "after" });
    expect(await bench().attempt("pool", welcome(pool))).toMatchObject({
      outcome: "failed",
      state: "unknown",
    });
    expect(takenFor("pool")).toBe(1);
    server.fail({ at: "rcpt to" });
    expect(await bench().attempt("pool 2", welcome(pool))).toMatchObject({
      outcome: "failed",
      state: "waiting",
    });
    expect(await bench().attempt("pool 2", welcome(pool))).toMatchObject({ outcome: "done" });
    expect(takenFor("pool 2")).toBe(1);
  });

  for (const heard of [
    { code: "ESTREAM" },
    { command: "RCPT TO", responseCode: 451 },
    { command: "DATA", responseCode: 550 },
  ]) {
    it(`is not sent again by a transport that tries twice on its own, and hears ${JSON.stringify(heard)} then`, async () => {
      let whole = 0;
      let plugin: ((mail: unknown, done: () => void) => void) | undefined;
      const stubborn = {
        transporter: { name: "SMTP (stubborn)" },
        use: (_: string, given: typeof plugin) => void (plugin = given),
        async sendMail(data: { from: string; messageId?: string }) {
          const passing = { data, message: { createReadStream: () => Readable.from(["Hello"]) } };
          plugin?.(passing, () => undefined);
          for (;;) {
            const stream = passing.message.createReadStream().on("error", () => undefined);
            if (stream.destroyed) throw Object.assign(new Error("not again"), heard);
            for await (const _ of stream);
            whole++;
          }
        },
      };
      await expect(mailOnce(stubborn).send({ key: "k" }, message)).rejects.toThrow(
        "did not answer after it had got the whole mail",
      );
      expect(whole).toBe(1);
    });
  }

  it("is parked as unknown when a transport that sends it to an API hears nothing of it", async () => {
    const sent: string[] = [];
    const transport = nodemailer.createTransport({
      name: "api",
      version: "1",
      // From the parts of the mail, as those of most providers do: nobody reads the message.
      send(mail, done) {
        mail.normalize((_, data) => {
          sent.push(String(data?.messageId));
          done(Object.assign(new Error("timeout"), { code: "ETIMEDOUT" }), undefined as never);
        });
      },
    } satisfies Transport);
    expect(await bench().attempt("api", welcome(mailOnce(transport) as never))).toMatchObject({
      outcome: "failed",
      state: "unknown",
    });
    expect((await bench().look("api"))["reason"]).toContain("nobody can tell how far it came (ETIMEDOUT)");
    expect(sent).toEqual([idOf("api")]);
  });

  for (const code of [550, 451]) {
    it(`keeps which recipients were refused (${code}) while others were not, and is done`, async () => {
      server.fail({ at: "rcpt to", code });
      const ran = await bench().attempt(
        `partly ${code}`,
        welcome(mailer(), { to: ["bob@example.com", "ann@example.com"] }),
      );
      expect(ran.outcome).toBe("done");
      expect(JSON.parse((ran as { result: string }).result)).toMatchObject({
        accepted: ["ann@example.com"],
        rejected: ["bob@example.com"],
      });
    });
  }

  it("does not know how far a mail came with a transport that cannot be watched", async () => {
    const mail = mailOnce(
      { sendMail: () => Promise.reject(new Error("down")) },
      { domain: "mail.example.com" },
    );
    expect(await bench().attempt("blind", (step) => mail(step, "welcome", message))).toMatchObject({
      outcome: "failed",
      state: "unknown",
    });
    const ids: string[] = [];
    const fine = mailOnce(
      {
        sendMail: async (sent: { from: string; messageId?: string }) => (
          ids.push(sent.messageId!),
          { response: "ok" }
        ),
      },
      { domain: "mail.example.com" },
    );
    await fine.send({ key: "k" }, { from: "a@b.c" });
    expect(ids).toEqual(["<k@mail.example.com>"]);
  });

  it("has the sender's domain on the right of its Message-ID", async () => {
    const ids: string[] = [];
    const mail = mailOnce({
      sendMail: async (sent: { from?: unknown; messageId?: string }) => (
        ids.push(sent.messageId!),
        { response: "ok" }
      ),
    });
    for (const from of [
      "a@one.example",
      "A <a@two.example>",
      { name: "A", address: "a@three.example" },
      undefined,
    ]) {
      await mail.send({ key: "k" }, { from });
    }
    expect(ids).toEqual(["<k@one.example>", "<k@two.example>", "<k@three.example>", "<k@localhost>"]);
  });
});
