/**
 * The two senders of a storm, each a process of its own so that neither waits for the other: one delivers a single
 * event over a thousand connections at once, the other goes on delivering new events at a steady rate.
 */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { ids } from "./event.ts";
import { request, whole } from "./load.ts";

export interface StormLoad {
  readonly port: number;
  /** Deliveries of the one event, each over a connection of its own. */
  readonly deliveries: number;
  /** Unrelated events a second. */
  readonly rate: number;
}

/** Times are in ms of one clock, the machine's. */
export interface Stormed {
  readonly began: number;
  readonly ended: number;
  readonly statuses: Statuses;
}

export interface Unrelated {
  readonly ids: readonly string[];
  /** When each was due to be sent, and how long after that its answer had come. */
  readonly answered: readonly { readonly due: number; readonly ms: number }[];
  readonly statuses: Statuses;
}

type Statuses = Readonly<Record<string, number>>;

export interface Senders {
  /** Signs what will be sent, and says the id of the event that will come a thousand times. */
  prepare(): Promise<string>;
  /** One storm, with unrelated events from its first connection until its last answer. */
  storm(): Promise<{ stormed: Stormed; unrelated: Unrelated }>;
  close(): void;
}

/** Enough for the senders' own code to be compiled. */
const WARM_ROUNDS = 10;
const WARM_CONNECTIONS = 100;

/** More than any storm here lasts; requests for all that time are made before it starts. */
const LONGEST_S = 60;

export function startSenders(load: StormLoad): Senders {
  const [storm, steady] = ["storm", "steady"].map((role) =>
    fork(new URL(import.meta.url), [role, JSON.stringify(load)], {
      serialization: "advanced",
      execArgv: [],
    }),
  ) as [ChildProcess, ChildProcess];
  return {
    async prepare() {
      const [id] = await Promise.all([ask(storm, "prepare"), ask(steady, "prepare")]);
      return id as string;
    },
    async storm() {
      await ask(steady, "go");
      const stormed = (await ask(storm, "go")) as Stormed;
      return { stormed, unrelated: (await ask(steady, "stop")) as Unrelated };
    },
    close() {
      storm.disconnect();
      steady.disconnect();
    },
  };
}

async function ask(child: ChildProcess, what: string): Promise<unknown> {
  child.send(what);
  const ended = once(child, "exit").then(() => {
    throw new Error("a sender of the storm ended early");
  });
  ended.catch(() => undefined);
  const [message] = (await Promise.race([once(child, "message"), ended])) as [unknown];
  return message;
}

const now = (): number => performance.timeOrigin + performance.now();

/** Opens a connection for each delivery, all at once, as a sender does that has lost its patience. */
function makeStorm({ port, deliveries }: StormLoad): Record<string, () => unknown> {
  const nextId = ids();
  let bytes: Buffer;
  return {
    prepare() {
      const id = nextId();
      bytes = request(id, port);
      return id;
    },
    async go(): Promise<Stormed> {
      const statuses: Record<string, number> = {};
      const began = now();
      const sockets = Array.from({ length: deliveries }, () => open(port));
      await Promise.all(sockets.map(async (socket) => count(statuses, await exchange(socket, bytes))));
      const ended = now();
      for (const socket of sockets) socket.destroy();
      return { began, ended, statuses };
    },
  };
}

/**
 * Sends when an event is due, whether the one before was answered or not, over a connection that is free or a new
 * one. An answer's time counts from when its event was due, so a sender that is held up does not flatter anybody.
 */
function makeSteady({ port, rate }: StormLoad): Record<string, () => unknown> {
  const nextId = ids();
  const free: Socket[] = [];
  let events: { id: string; bytes: Buffer }[] = [];
  let running: Promise<Unrelated>;
  let going = false;

  async function send(): Promise<Unrelated> {
    const sent: string[] = [];
    const answered: { due: number; ms: number }[] = [];
    const statuses: Record<string, number> = {};
    const deliver = async (bytes: Buffer, due: number): Promise<void> => {
      const socket = free.pop() ?? open(port);
      count(statuses, await exchange(socket, bytes));
      answered.push({ due, ms: now() - due });
      free.push(socket);
    };
    const began = now();
    const underWay: Promise<void>[] = [];
    for (let i = 0; going && i < events.length; i++) {
      const due = began + (i * 1000) / rate;
      const early = due - now();
      if (early > 0) await wait(early);
      const { id, bytes } = events[i]!;
      sent.push(id);
      underWay.push(deliver(bytes, due));
    }
    await Promise.all(underWay);
    return { ids: sent, answered, statuses };
  }

  return {
    prepare() {
      events = Array.from({ length: rate * LONGEST_S }, nextId).map((id) => ({
        id,
        bytes: request(id, port),
      }));
    },
    go() {
      going = true;
      running = send();
    },
    stop() {
      going = false;
      return running;
    },
  };
}

function open(port: number): Socket {
  return connect({ port, host: "127.0.0.1", noDelay: true }).setMaxListeners(0);
}

/** Writes a request and resolves with the status of its answer. */
function exchange(socket: Socket, bytes: Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const receive = (chunk: Buffer): void => {
      text += chunk.toString("latin1");
      if (!whole(text)) return;
      socket.off("data", receive).off("error", reject);
      resolve(text.slice(9, 12));
    };
    socket.on("data", receive).on("error", reject);
    socket.write(bytes);
  });
}

function count(statuses: Record<string, number>, status: string): void {
  statuses[status] = (statuses[status] ?? 0) + 1;
}

/** Compiles the code above on a server of our own, so that only what is measured is new to it. */
async function warmUp(): Promise<void> {
  const server = createServer((socket) => {
    socket
      .on("data", () => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"))
      .on("error", () => undefined);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  for (let round = 0; round < WARM_ROUNDS; round++) {
    const sockets = Array.from({ length: WARM_CONNECTIONS }, () => open(port));
    await Promise.all(sockets.map((socket) => exchange(socket, Buffer.from("any"))));
    for (const socket of sockets) socket.destroy();
  }
  server.close();
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.once("disconnect", () => process.exit());
  await warmUp();
  const load = JSON.parse(process.argv[3]!) as StormLoad;
  const sender = process.argv[2] === "storm" ? makeStorm(load) : makeSteady(load);
  process.on("message", (what: string) => {
    void Promise.resolve(sender[what]!()).then((answer) => process.send!(answer ?? null));
  });
}
