/**
 * A server as it is after a while. A new one makes each segment of its log when it is needed, writes it full of zeros
 * and flushes it while everybody waits; and the first use of each of its buffers is a page fault. A server that has been
 * running does neither: it uses old segments again, and has touched its memory. Measured on a new one, that was a
 * quarter of what Postgres spent on an event in batches, and little of what it spends on somebody's twentieth statement.
 */
import { withClient } from "./database.ts";

/** In pages of 8 KB, a row each: all of `shared_buffers`. */
const BUFFERS = 65_536;

export const steadySettings = { shared_buffers: "512MB", min_wal_size: "1GB", max_wal_size: "8GB" };

/** Touches all buffers, and writes a gigabyte of log, which becomes segments to be used again. */
export async function runIn(url: string): Promise<void> {
  await withClient(url, async (client) => {
    await client.query("create table run_in (page text)");
    await client.query("alter table run_in alter page set storage plain");
    for (let i = 0; i < 2; i++) {
      await client.query(`insert into run_in select repeat('x', 8000) from generate_series(1, ${BUFFERS})`);
      await client.query("truncate run_in");
    }
    await client.query("drop table run_in");
    await client.query("checkpoint");
  });
}

/** Before a cell: nothing is to be written out, and segments that are no longer needed are ready to be used again. */
export async function settle(url: string): Promise<void> {
  await withClient(url, (client) => client.query("checkpoint"));
}

/**
 * What waits longer than a minute, as a backlog does, has been vacuumed and analysed. Without, the plans of some are made
 * for empty tables: graphile-worker then drains 100,000 jobs half as fast.
 */
export async function haveBeenVacuumed(url: string): Promise<void> {
  await withClient(url, (client) => client.query("vacuum analyze"));
}
