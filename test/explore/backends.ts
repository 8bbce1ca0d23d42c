/** The server's own processes behind the sessions: who waits for whom, and who is stopped for a moment. */
import { setTimeout as realTimeout } from "node:timers";
import type pg from "pg";

/** One that is stopped may hold what the server itself needs: then it goes on, and whoever is faster wins. */
const longestHoldMs = 500;

export class Backends {
  readonly #monitor: pg.Client;
  readonly #pids = new Map<string, number>();
  readonly #stopped = new Set<string>();
  #holding: NodeJS.Timeout | undefined;

  constructor(monitor: pg.Client) {
    this.#monitor = monitor;
  }

  add(session: string, pid: number): void {
    this.#pids.set(session, pid);
  }

  /** Who waits for whom; the server's own upkeep lets everybody in again by itself. */
  async blockers(waiting: Iterable<string>): Promise<Map<string, string[]>> {
    const sessions = [...waiting];
    const { rows } = await this.#monitor.query<{ blockers: number[] }>({
      name: "blockers",
      text: "select pg_blocking_pids(pid) as blockers from unnest($1::integer[]) with ordinality as u(pid, i) order by i",
      values: [sessions.map((session) => this.#pids.get(session))],
    });
    const byPid = new Map([...this.#pids].map(([name, pid]) => [pid, name]));
    return new Map(
      sessions.map((session, i) => [session, rows[i]!.blockers.flatMap((pid) => byPid.get(pid) ?? [])]),
    );
  }

  stop(sessions: readonly string[]): void {
    for (const session of sessions) {
      process.kill(this.#pids.get(session)!, "SIGSTOP");
      this.#stopped.add(session);
    }
    if (this.#stopped.size > 0) this.#holding = realTimeout(() => this.letAllGo(), longestHoldMs);
  }

  letGo(session: string): void {
    if (this.#stopped.delete(session)) process.kill(this.#pids.get(session)!, "SIGCONT");
    if (this.#stopped.size === 0) clearTimeout(this.#holding);
  }

  letAllGo(): void {
    for (const session of this.#stopped) this.letGo(session);
  }
}

/** It waits for somebody who, directly or not, waits for it. */
export function isCircle(blockers: ReadonlyMap<string, readonly string[]>, session: string): boolean {
  const seen = new Set<string>();
  const reaches = (from: string): boolean =>
    (blockers.get(from) ?? []).some((other) => {
      if (other === session) return true;
      if (seen.has(other)) return false;
      seen.add(other);
      return reaches(other);
    });
  return reaches(session);
}
