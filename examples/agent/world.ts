import { createServer } from "node:http";
import type { AddressInfo, Server } from "node:net";
import { SMTPServer } from "smtp-server";

/** What the agent meets outside: an API of leads and companies, and a mail server whose sent mails can be searched. */
export interface RunningWorld {
  readonly api: string;
  readonly smtp: string;
  /** How often a lead was made for a key. */
  readonly leads: ReadonlyMap<string, number>;
  /** The Message-IDs of all mails that were taken, in order. */
  readonly mails: readonly string[];
  close(): Promise<void>;
}

export async function startWorld(): Promise<RunningWorld> {
  const leads = new Map<string, number>();
  const mails: string[] = [];

  const http = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://world");
    const answer = (status: number, body: unknown): void => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    };
    if (pathname === "/leads") {
      const key = String(request.headers["idempotency-key"]);
      leads.set(key, (leads.get(key) ?? 0) + 1);
      answer(200, { name: "Ann", email: "ann@acme.example", company: "Acme" });
    } else if (pathname.startsWith("/companies/")) {
      answer(200, { employees: 42 });
    } else if (pathname.startsWith("/sent/")) {
      const messageId = mails.find((id) => id.startsWith(`<${pathname.slice("/sent/".length)}@`));
      answer(messageId ? 200 : 404, { messageId });
    } else {
      answer(404, {});
    }
  });

  const smtp = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS"],
    onData(stream, _session, done) {
      let text = "";
      stream.on("data", (chunk: Buffer) => (text += chunk.toString()));
      stream.on("end", () => {
        mails.push(/^message-id: (.*)$/im.exec(text)?.[1] ?? "");
        done();
      });
    },
  });
  smtp.on("error", () => undefined); // A client that died.

  const port = async (server: Server): Promise<number> => {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return (server.address() as AddressInfo).port;
  };
  return {
    api: `http://127.0.0.1:${await port(http)}`,
    smtp: `smtp://127.0.0.1:${await port(smtp.server)}`,
    leads,
    mails,
    async close() {
      http.closeAllConnections();
      await Promise.all([
        new Promise((resolve) => http.close(resolve)),
        new Promise<void>((resolve) => smtp.close(() => resolve())),
      ]);
    },
  };
}
