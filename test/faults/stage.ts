/** Where faults strike: server and worker processes over a database, senders, and somebody who looks on. */
import { AppProcess, type Role } from "./app-process.ts";
import type { FaultOptions } from "./fault.ts";
import { Load } from "./load.ts";
import type { Random } from "./random.ts";
import { Witness } from "./witness.ts";

export interface StageOptions extends Pick<FaultOptions, "size" | "random"> {
  /** The database as the processes reach it. */
  readonly url: string;
  /** The database itself, as it can be reached now. Default: the same. */
  readonly direct?: () => string;
  /** More of the processes' environment. */
  readonly env?: Readonly<Record<string, string>>;
}

export class Stage {
  readonly random: Random;
  readonly processes: readonly AppProcess[];
  readonly load: Load;
  readonly witness: Witness;

  private constructor(parts: Pick<Stage, "random" | "processes" | "load" | "witness">) {
    this.random = parts.random;
    this.processes = parts.processes;
    this.load = parts.load;
    this.witness = parts.witness;
  }

  static async open({ url, direct = () => url, env = {}, size, random }: StageOptions): Promise<Stage> {
    const witness = new Witness(direct);
    const processes: AppProcess[] = [];
    try {
      await witness.prepare();
      const roles: Role[] = [
        ...Array.from({ length: size.servers }, (): Role => "server"),
        ...Array.from({ length: size.workers }, (): Role => "worker"),
      ];
      const started = await Promise.allSettled(
        roles.map((role) =>
          AppProcess.start({ role, url, env: { FAULTS_LEASE_MS: String(size.leaseMs), ...env } }),
        ),
      );
      for (const one of started) if (one.status === "fulfilled") processes.push(one.value);
      for (const one of started) if (one.status === "rejected") throw one.reason;
    } catch (error) {
      for (const process of processes) await process.kill();
      await witness.close();
      throw error;
    }
    const ports = processes.filter(({ role }) => role === "server").map(({ port }) => port);
    const load = new Load({ ports, senders: size.senders, paceMs: size.paceMs, random });
    return new Stage({ random, processes, load, witness });
  }

  any(role?: Role): AppProcess {
    return this.random.pick(this.processes.filter((one) => role === undefined || one.role === role));
  }

  async close(): Promise<void> {
    this.load.close();
    for (const process of this.processes) await process.kill();
    await this.witness.close();
  }
}
