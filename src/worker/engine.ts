import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { Database } from "../database/database.ts";
import { currentDryRun, dryRunnable } from "../database/dry-run.ts";
import { OncewardError } from "../errors.ts";
import { Ledger } from "../ledger/ledger.ts";
import { checkSchema, migrate } from "../ledger/migrate.ts";
import type { ClaimedTask, NewTask, Recorded } from "../ledger/task.ts";
import { type Lane, laneOf, type Ran } from "./lane.ts";
import type { Instant } from "./lease.ts";
import { connectionsToUse, Room } from "./room.ts";
import { runTask } from "./run.ts";
import { Worker, type WorkerOptions } from "./worker.ts";

export interface EngineOptions extends WorkerOptions {
  readonly schema?: string | undefined;
  /** Bring the schema up to date at the first use. Default true; false only checks it. */
  readonly migrate?: boolean | undefined;
  readonly leaseMs?: number | undefined;
}

export interface RunHereOptions {
  /** When it was claimed, at the latest. */
  readonly asked?: Instant | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Tell of it as of what a worker runs: the caller does not get the error. */
  readonly told?: boolean | undefined;
}

/**
 * What sources, jobs, actions and machines share in one process: the ledger, the lanes that were
 * registered, and the worker that runs them.
 */
export class Engine<Tx = unknown> {
  readonly database: Database<Tx>;
  readonly ledger: Ledger;
  readonly worker: Worker;
  /** Places for transactions that last as long as somebody's code. */
  readonly room: Room;
  readonly #options: EngineOptions;
  readonly #lanes = new Map<string, Lane>();
  #ready: Promise<void> | undefined;
  #closed = false;

  constructor(database: Database<Tx>, options: EngineOptions = {}) {
    const { schema, leaseMs } = options;
    this.database = dryRunnable(database);
    this.#options = options;
    // In containers every process is number 1 of some host, and one process can have several engines.
    const worker = `${hostname()}:${process.pid}:${randomBytes(3).toString("hex")}`;
    this.ledger = new Ledger(this.database, { schema, leaseMs, worker });
    this.worker = new Worker(this.ledger, this.#lanes, options);
    this.room = new Room(connectionsToUse(this.database));
  }

  /** Registers what runs a lane. Closed once the engine runs: a late handler would miss what came before it. */
  addLane(lane: Lane): void {
    this.checkOpen(lane.name);
    if (this.#lanes.has(lane.name)) {
      throw new OncewardError(
        "config_invalid",
        `There are two registrations for ${lane.name}; give one another name.`,
      );
    }
    this.#lanes.set(lane.name, lane);
  }

  /** What runs a scope here; undefined where nothing does. */
  laneOf(scope: string): Lane | undefined {
    return laneOf(this.#lanes, scope);
  }

  /** Throws where registration is closed. */
  checkOpen(what: string): void {
    if (this.#closed) {
      throw new OncewardError(
        "registration_closed",
        `${what} was registered after the first delivery or start(). Register everything first.`,
      );
    }
  }

  /** Closes registration, and makes sure once that the schema is there. A failure is tried again at the next use. */
  ready(): Promise<void> {
    this.#closed = true;
    this.#ready ??= this.#prepare().catch((error: unknown) => {
      this.#ready = undefined;
      throw error;
    });
    return this.#ready;
  }

  async start(): Promise<void> {
    await this.ready();
    await this.worker.start();
  }

  async stop(options?: { graceMs?: number }): Promise<void> {
    await this.worker.stop(options);
  }

  /** Records a task, and runs it here at once where a worker of this process has room. */
  async offer(task: NewTask): Promise<Recorded> {
    await this.ready();
    return this.worker.offer(task);
  }

  /** Runs a claimed task now, for a caller who waits for it. */
  async runHere(lane: Lane, task: ClaimedTask, options: RunHereOptions = {}): Promise<Ran> {
    currentDryRun()?.refuse(`run ${task.scope} ${task.key}`);
    const { ledger, worker } = this;
    const { leases } = worker;
    const { asked, signal, told = false } = options;
    let ms = 0;
    const onEnded = (took: number): void => void (ms = took);
    const ran = await runTask(lane, task, {
      ledger,
      leases,
      lease: leases.hold(task, asked),
      signal,
      onEnded,
    });
    if (told) worker.tellRan(task, ran, ms);
    return ran;
  }

  async #prepare(): Promise<void> {
    const { schema, migrate: wanted = true } = this.#options;
    const options = schema === undefined ? {} : { schema };
    await (wanted ? migrate(this.database, options) : checkSchema(this.database, options));
  }
}
