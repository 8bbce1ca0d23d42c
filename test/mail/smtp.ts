/** A mail server that takes mails, and fails where a test wants it to. */
import type { AddressInfo, Socket } from "node:net";
import { SMTPServer } from "smtp-server";

/** Where the server fails, and how: it hangs up, or answers with this code. */
export type Failure =
  | { at: "connect" | "login" | "mail from" | "rcpt to" | "end"; code?: number }
  /** Hangs up in the middle of the message, with this many bytes read. */
  | { at: "middle"; bytes: number }
  /** Has taken the mail, and hangs up before it says so. */
  | { at: "after"; code?: undefined };

export interface MailServer {
  readonly port: number;
  /** What it has taken, by Message-ID. */
  readonly taken: string[];
  /** The same mails, whole. */
  readonly texts: string[];
  /** The next of these is what the next connection meets. */
  fail(...failures: Failure[]): void;
  close(): Promise<void>;
}

export async function startMailServer(): Promise<MailServer> {
  const failures: Failure[] = [];
  const taken: string[] = [];
  const texts: string[] = [];
  /** By the port of the client: the sessions of smtp-server do not show their sockets. */
  const sockets = new Map<number | undefined, Socket>();
  let current: Failure | undefined;

  const hangUp = (session: { remotePort: number }): void => void sockets.get(session.remotePort)?.destroy();
  /** Fails at this point if it is to; else goes on. */
  const meet = (
    at: Failure["at"],
    session: { remotePort: number },
    done: (error?: Error | null) => void,
  ): void => {
    if (current?.at !== at) return done();
    const code = "code" in current ? current.code : undefined;
    current = undefined;
    if (code === undefined) hangUp(session);
    else done(Object.assign(new Error("ann@example.com is not welcome"), { responseCode: code }));
  };

  const server = new SMTPServer({
    disabledCommands: ["STARTTLS"],
    authOptional: true,
    allowInsecureAuth: true,
    logger: false,
    onConnect(session, done) {
      current = failures.shift();
      meet("connect", session, done);
    },
    onAuth: (_, session, done) => meet("login", session, (error) => done(error ?? null, { user: "shop" })),
    onMailFrom: (_, session, done) => meet("mail from", session, done),
    onRcptTo: (_, session, done) => meet("rcpt to", session, done),
    onData(stream, session, done) {
      let text = "";
      const failure = current;
      stream.on("data", (chunk: Buffer) => {
        text += chunk.toString("latin1");
        if (failure?.at === "middle" && text.length >= failure.bytes) hangUp(session);
      });
      stream.once("end", () => {
        meet("end", session, (error) => {
          if (error) return done(error);
          taken.push(/^message-id: (.*)$/im.exec(text)?.[1] ?? "none");
          texts.push(text);
          meet("after", session, () => done());
        });
      });
    },
  });
  server.on("error", () => undefined);
  server.server.on("connection", (socket: Socket) => {
    socket.on("error", () => undefined);
    sockets.set(socket.remotePort, socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.server.address() as AddressInfo).port,
    taken,
    texts,
    fail: (...more) => void failures.push(...more),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets.values()) socket.destroy();
      }),
  };
}
