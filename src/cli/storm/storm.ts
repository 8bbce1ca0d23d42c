import { randomBytes } from "node:crypto";
import { Failure } from "../fail.ts";
import { Progress } from "../progress.ts";
import { developmentSecret } from "../settings.ts";
import { stormEvent, type StormEvent } from "./events.ts";
import { effectsAt, settle, type Verdict } from "./outcome.ts";
import { deliver, hintAt, sender, stripeSigner } from "./sender.ts";
import { Victim } from "./victim.ts";

export interface StormOptions {
  readonly url: string;
  readonly type: string;
  readonly events: string;
  readonly deliveries: string;
  readonly concurrency: string;
  readonly reorder?: boolean;
  readonly twin?: boolean;
  /** A folder with a configuration: the storm starts its own server on it, and kills it at random moments. */
  readonly kill?: string | boolean;
  readonly kills: string;
  readonly json?: boolean;
}

/** `onceward storm`: sends what Stripe would send, as badly as it can, and looks at what became of it. */
export async function storm(options: StormOptions): Promise<void> {
  const sign = await stripeSigner(secret());
  const tag = `storm${randomBytes(4).toString("hex")}`;
  const events = makeEvents(options, tag);
  const deliveries = shuffled(
    events.flatMap((event) => Array.from({ length: count("deliveries", options.deliveries) }, () => event)),
    options.reorder === true,
  );
  const concurrency = count("concurrency", options.concurrency);
  const moments = randomMoments(count("kills", options.kills), deliveries.length);
  const victim = options.kill ? await Victim.start(options.kill === true ? "." : options.kill) : undefined;
  const url = victim ? undefined : await reachable(options.url);
  const at = (path: string): string | undefined => {
    const base = victim ? victim.base : url;
    return base && base + path;
  };
  const send = sender(() => at("/webhooks/stripe"), sign, concurrency);
  const progress = new Progress(deliveries.length);
  const answers = new Map<number, number>();
  const ended = new AbortController();
  const told = `/storm?tag=${tag}`;
  try {
    await effectsAt(at(told));
    let next = 0;
    let done = 0;
    let killing: Promise<void> | undefined;
    const givenUp = new Set<string>();
    const deliverAll = async (): Promise<void> => {
      for (let event = deliveries[next++]; event; event = deliveries[next++]) {
        if (!(await deliver(send, event, answers, ended.signal))) givenUp.add(event.id);
        progress.show(++done, victim ? `killed ${victim.kills} times` : "");
        if (!victim || killing || done < (moments[0] ?? Infinity)) continue;
        moments.shift();
        killing = victim.kill();
        // Others go on delivering meanwhile; who asked for it waits, and fails with it.
        await killing;
        killing = undefined;
      }
    };
    await Promise.all(Array.from({ length: concurrency }, deliverAll));
    const verdict = await settle(at(told), events, (left) =>
      progress.note(`waiting for ${left} to settle …`),
    );
    progress.end();
    report(
      { deliveries: deliveries.length, answers, verdict, kills: victim?.kills, givenUp: givenUp.size },
      options.json === true,
    );
  } finally {
    ended.abort();
    send.close();
    await victim?.stop();
  }
}

/** `onceward trigger <type>`: one event, once. */
export async function trigger(type: string, options: { url: string }): Promise<void> {
  const event = stormEvent(type, `trigger${randomBytes(4).toString("hex")}`, 1);
  const base = await reachable(options.url);
  const send = sender(() => `${base}/webhooks/stripe`, await stripeSigner(secret()), 1);
  const { status, code } = await send(event);
  send.close();
  if (status === 0) throw new Failure(`The server at ${base} did not answer: look at its log.`);
  console.log(`${event.type} ${event.id} about ${event.objectId}: ${status}${code ? ` ${code}` : ""}`);
  if (status >= 300) throw new Failure(`The server did not take it. ${hintAt(code)}`.trim());
}

/** The address without a slash at its end, of a server that answers. */
async function reachable(url: string): Promise<string> {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new Failure(`--url is an address such as http://127.0.0.1:4400, not "${url}".`);
  const base = url.replace(/\/$/, "");
  await fetch(`${base}/healthz`).catch(() => {
    throw new Failure(
      `Nobody answers at ${base}. Start a server first: \`npm start\`, or \`onceward serve\`.`,
    );
  });
  return base;
}

function makeEvents({ type, events, twin }: StormOptions, tag: string): StormEvent[] {
  const types = type.split(",").map((name) => name.trim());
  return Array.from({ length: count("events", events) }, (_, i) => types[i % types.length] as string).flatMap(
    (name, i) => {
      const event = stormEvent(name, tag, i);
      return twin ? [event, stormEvent(name, tag, i, true)] : [event];
    },
  );
}

interface Report {
  readonly deliveries: number;
  readonly answers: ReadonlyMap<number, number>;
  readonly verdict: Verdict;
  readonly kills: number | undefined;
  readonly givenUp: number;
}

function report({ deliveries, answers, verdict, kills, givenUp }: Report, json: boolean): void {
  const { recorded, counts, doubled, lost } = verdict;
  const statuses = Object.fromEntries(
    [...answers].toSorted(([a], [b]) => a - b).map(([status, n]) => [status || "none", n]),
  );
  if (json) {
    console.log(
      JSON.stringify({
        deliveries,
        answers: statuses,
        kills,
        recorded,
        ...counts,
        doubled: doubled.length,
        lost: lost.length,
      }),
    );
  } else {
    const rows: [string, string | number][] = [
      ["deliveries", deliveries],
      ...Object.entries(statuses).map(([status, n]): [string, number] => [`  answered ${status}`, n]),
      ...(kills === undefined ? [] : [["server killed", `${kills} times`] as [string, string]]),
      ["events recorded", recorded],
      ...Object.entries(counts),
      ["doubled", doubled.length],
      ["lost", lost.length],
    ];
    const width = Math.max(...rows.map(([name]) => name.length));
    for (const [name, value] of rows) console.log(`${name.padEnd(width)}  ${String(value).padStart(8)}`);
  }
  for (const name of [
    ...doubled.slice(0, 5).map((n) => `doubled: ${n}`),
    ...lost.slice(0, 5).map((n) => `lost: ${n}`),
  ])
    console.error(name);
  if (doubled.length > 0 || lost.length > 0 || givenUp > 0) process.exitCode = 1;
}

function secret(): string {
  const made = developmentSecret();
  return made ?? (process.env["STRIPE_WEBHOOK_SECRET"] ?? "").split(",")[0]?.trim() ?? "";
}

function count(name: string, text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text))
    throw new Failure(`--${name} is a whole number from 1 to 9999999, not "${text}".`);
  return Number(text);
}

/** After how many deliveries the server is killed: at random, and early enough for what follows to show the damage. */
function randomMoments(kills: number, deliveries: number): number[] {
  return Array.from({ length: kills }, () => 1 + Math.floor(Math.random() * deliveries * 0.9)).toSorted(
    (a, b) => a - b,
  );
}

function shuffled<T>(items: T[], wanted: boolean): T[] {
  if (!wanted) return items;
  for (let i = items.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [items[i], items[j]] = [items[j] as T, items[i] as T];
  }
  return items;
}
