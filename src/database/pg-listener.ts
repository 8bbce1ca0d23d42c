/** LISTEN over one direct connection of `pg` that comes back by itself. */
import type { Database } from "./database.ts";
import { loadPg } from "./driver.ts";
import { asDatabaseError } from "./failure.ts";

type Listen = NonNullable<Database["listen"]>;

/** First and longest wait before connecting again, in ms: polling covers the gap, so there is no hurry. */
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 10_000;

/** Without the delay the first probe of an idle connection goes out after two hours, where it goes out at all. */
export const keepAlive = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 } as const;

interface Connection {
  query(text: string): Promise<unknown>;
  end(): Promise<void>;
}

/** Undefined without a URL: through somebody else's pool one cannot listen. */
export function pgListener(url: string | undefined): { listen: Listen; close(): Promise<void> } | undefined {
  if (url === undefined) return undefined;
  const channels = new Map<string, Set<(payload: string) => void>>();
  let connection: Promise<Connection> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const connect = async (): Promise<Connection> => {
    const { Client } = await loadPg();
    const client = new Client({
      connectionString: url,
      ...keepAlive,
      connectionTimeoutMillis: 5_000,
      application_name: "onceward listen",
    });
    client.on("notification", ({ channel, payload }) => call(channel, payload ?? ""));
    client.on("error", () => {}); // `end` follows
    try {
      await client.connect();
      for (const channel of channels.keys()) await client.query(`listen ${quote(channel)}`);
    } catch (error) {
      client.end().catch(() => {});
      throw asDatabaseError(error);
    }
    client.on("end", () => {
      connection = undefined;
      if (channels.size > 0) reconnect(FIRST_WAIT_MS);
    });
    return client;
  };

  const reconnect = (waitMs: number): void => {
    timer = setTimeout(() => {
      open().then(
        () => {
          // Whatever was notified meanwhile is lost: look once.
          for (const channel of channels.keys()) call(channel, "");
        },
        () => channels.size > 0 && reconnect(Math.min(waitMs * 2, LONGEST_WAIT_MS)),
      );
    }, waitMs);
    timer.unref();
  };

  const open = (): Promise<Connection> => {
    connection ??= connect().catch((error: unknown) => {
      connection = undefined;
      throw error;
    });
    return connection;
  };

  const call = (channel: string, payload: string): void => {
    for (const onNotify of channels.get(channel) ?? []) onNotify(payload);
  };

  const end = async (): Promise<void> => {
    clearTimeout(timer);
    const last = connection;
    connection = undefined;
    await last?.then((client) => client.end()).catch(() => {});
  };

  const stop = async (channel: string, onNotify: (payload: string) => void): Promise<void> => {
    const callbacks = channels.get(channel);
    callbacks?.delete(onNotify);
    if (!callbacks || callbacks.size > 0) return;
    channels.delete(channel);
    if (channels.size === 0) return end();
    await connection?.then((client) => client.query(`unlisten ${quote(channel)}`)).catch(() => {});
  };

  return {
    async listen(channel, onNotify) {
      const callbacks = channels.get(channel) ?? new Set();
      channels.set(channel, callbacks.add(onNotify));
      try {
        await (await open()).query(`listen ${quote(channel)}`);
      } catch (error) {
        await stop(channel, onNotify);
        throw asDatabaseError(error);
      }
      return () => stop(channel, onNotify);
    },
    async close() {
      channels.clear();
      await end();
    },
  };
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
