/** The parts of an explored process: the real engine over the process's own connections. */
import { pgDatabase } from "../../../src/database/pg.ts";
import { Engine, type EngineOptions } from "../../../src/worker/engine.ts";
import { leaseMs } from "../durations.ts";
import type { Process, Session } from "../process.ts";
import type { Scene } from "../scene.ts";

/**
 * Rare, so that schedules stay short; but each worker looks once within the others' leases, and so knows when one ends:
 * it sleeps no longer than until the next task is due.
 */
export const pollMs = 50_000;

/** Short, so that a schedule comes to rest soon: it is not the length of pauses that is explored. */
export const backoff = { baseMs: 1_000, capMs: 8_000 };

/** The schema is there; to check it again at every start takes longer than most of what is explored. */
class ReadyEngine extends Engine<Session> {
  override async ready(): Promise<void> {}
}

export function startEngine(
  process: Process,
  scene: Scene<unknown>,
  options: Pick<EngineOptions, "concurrency"> = {},
): Engine<Session> {
  return new ReadyEngine(pgDatabase(process.pool()), {
    ...options,
    leaseMs,
    pollMs,
    onError: (error) => scene.said.push(String(error)),
  });
}

export interface Task {
  readonly scope: string;
  readonly key: string;
  readonly attempt: number;
}

/** Writes a row that must be there once, and says which attempt of which task wrote it. */
export async function writeEffect(tx: Session, name: string, { scope, key, attempt }: Task): Promise<void> {
  await tx.query("insert into app.effect (name, scope, key, attempt) values ($1, $2, $3, $4)", [
    name,
    scope,
    key,
    String(attempt),
  ]);
}

/** Again after an error: the database was away. */
export async function untilDone(act: () => Promise<unknown>): Promise<void> {
  for (let tries = 0; tries < 5; tries++) {
    try {
      await act();
      return;
    } catch {
      // Tried again.
    }
  }
}
