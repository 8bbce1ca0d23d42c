/**
 * The load generator, a process of its own: keep-alive sockets, one request under way on each, requests
 * signed and laid out before the clock starts, so that it costs as little as it can of the cores it shares
 * with what it measures.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { pathToFileURL } from "node:url";
import { body, ids, signature } from "./event.ts";
import { percentile } from "./statistics.ts";

export interface Load {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  /** Send these many events again and again instead of new ones; each was sent once before the clock started. */
  readonly repeated?: number;
}

export interface Loaded {
  readonly requests: number;
  readonly seconds: number;
  readonly statuses: Readonly<Record<string, number>>;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** What the generator itself took, µs of CPU a request. */
  readonly cpuUs: number;
}

/** More than any server here can answer in a second; requests for the whole time are made before it starts. */
const FASTEST = 30_000;

/**
 * Requests until the server's code is compiled, and no longer than this where it is slow. After 3,000 V8 was still
 * compiling for a second and more, in which the server was half as fast as later.
 */
const WARM = { requests: 30_000, seconds: 2 };

/** A generator that is ready, and has sent some requests already. */
export interface Prepared {
  readonly warm: number;
  /** Starts the clock. */
  go(): Promise<Loaded>;
}

export async function prepareLoad(load: Load): Promise<Prepared> {
  const child = fork(new URL(import.meta.url), { serialization: "advanced", execArgv: [] });
  child.send(load);
  const warm = (await answer()) as number;
  return {
    warm,
    async go() {
      child.send("go");
      return (await answer()) as Loaded;
    },
  };

  async function answer(): Promise<unknown> {
    const end = once(child, "exit").then(() => {
      throw new Error("the load generator ended early");
    });
    const [message] = (await Promise.race([once(child, "message"), end])) as [unknown];
    end.catch(() => undefined);
    return message;
  }
}

/** A signed delivery, as it goes over the wire. */
export function request(id: string, port: number): Buffer {
  const bytes = Buffer.from(body(id));
  const signed = signature(bytes, Math.floor(Date.now() / 1000));
  const head = `POST /stripe/webhook HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-type: application/json\r\ncontent-length: ${bytes.length}\r\nstripe-signature: ${signed}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), bytes]);
}

async function generate(): Promise<void> {
  process.once("disconnect", () => process.exit(1)); // Whoever asked has ended.
  const [load] = (await once(process, "message")) as [Load];
  const nextId = ids();
  const warmSeconds = Math.min(WARM.seconds, load.seconds);
  const count = load.repeated ?? WARM.requests + load.seconds * FASTEST;
  const requests = Array.from({ length: count }, () => request(nextId(), load.port));
  const lines = await Promise.all(Array.from({ length: load.connections }, () => open(load.port)));
  // Every server warms up with what is not counted; where events repeat, this is their first delivery.
  const first = load.repeated ? requests : requests.splice(0, WARM.requests);
  const { requests: warm } = await drive(lines, {
    requests: first,
    rounds: 1,
    seconds: load.repeated ? 60 : warmSeconds,
  });
  if (load.repeated) await drive(lines, { requests, rounds: Infinity, seconds: warmSeconds });
  process.send!(warm);
  await once(process, "message");
  const cpu = process.cpuUsage();
  const result = await drive(lines, {
    requests,
    rounds: load.repeated ? Infinity : 1,
    seconds: load.seconds,
  });
  const { user, system } = process.cpuUsage(cpu);
  const { latencies, ...rest } = result;
  const loaded: Loaded = {
    ...rest,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
    cpuUs: (user + system) / result.requests,
  };
  process.send!(loaded, () => process.exit());
}

/** A connection, and who is told of what comes over it. */
interface Line {
  readonly socket: Socket;
  receive(chunk: Buffer): void;
}

/** What comes is read into one buffer, again and again: a stream would make one for each answer, and pass it around. */
async function open(port: number): Promise<Line> {
  const onread = {
    buffer: Buffer.allocUnsafe(16 * 1024),
    callback(length: number, buffer: Uint8Array): boolean {
      line.receive((buffer as Buffer).subarray(0, length));
      return true;
    },
  };
  const socket = connect({ port, host: "127.0.0.1", noDelay: true, onread });
  const line: Line = { socket, receive: () => undefined };
  await once(socket, "connect");
  return line;
}

/** Sends until the time is over or, after so many rounds, all are sent; waits for the answers under way. */
async function drive(
  lines: readonly Line[],
  plan: { requests: readonly Buffer[]; rounds: number; seconds: number },
): Promise<{ requests: number; seconds: number; statuses: Record<string, number>; latencies: number[] }> {
  const { requests, rounds } = plan;
  const statuses: Record<string, number> = {};
  const latencies: number[] = [];
  const began = performance.now();
  const until = began + plan.seconds * 1000;
  let next = 0;
  let round = 0;
  const take = (): Buffer | undefined => {
    if (next === requests.length) {
      next = 0;
      round++;
    }
    return round < rounds && performance.now() < until ? requests[next++] : undefined;
  };
  await Promise.all(lines.map((line) => converse(line, take, statuses, latencies)));
  return { requests: latencies.length, seconds: (performance.now() - began) / 1000, statuses, latencies };
}

function converse(
  line: Line,
  take: () => Buffer | undefined,
  statuses: Record<string, number>,
  latencies: number[],
): Promise<void> {
  return new Promise((resolve, reject) => {
    let sent = 0;
    let text = "";
    // Answers are alike: one of the length of the last whole one, in one piece, needs no second look.
    let usual = 0;
    const { socket } = line;
    const send = () => {
      const bytes = take();
      if (!bytes) return resolve();
      sent = performance.now();
      socket.write(bytes);
    };
    line.receive = (chunk) => {
      let status: string;
      if (text === "" && chunk.length === usual) status = chunk.toString("latin1", 9, 12);
      else {
        text += chunk.toString("latin1");
        if (!whole(text)) return;
        usual = text.length;
        status = text.slice(9, 12);
        text = "";
      }
      statuses[status] = (statuses[status] ?? 0) + 1;
      latencies.push(performance.now() - sent);
      send();
    };
    socket.once("error", reject);
    socket.once("close", () => reject(new Error("the server closed a connection")));
    send();
  });
}

/** Whether this is a whole HTTP answer: its head, and as much body as the head says. */
export function whole(text: string): boolean {
  const end = text.indexOf("\r\n\r\n");
  if (end === -1) return false;
  const length = /\r\ncontent-length: *(\d+)/i.exec(text);
  if (length) return text.length >= end + 4 + Number(length[1]);
  return text.endsWith("\r\n0\r\n\r\n");
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) await generate();
