/**
 * A dry run calls nobody. Handlers leave the world outside to jobs, and jobs to steps, at which a dry run stops; but
 * nothing keeps code from calling somebody by itself. So it cannot open connections while it is part of a dry run.
 * (One that is open already, in a pool of its own, is out of our sight.)
 */
import { Socket } from "node:net";
import { guardedDryRun } from "../../database/dry-run.ts";
import { OncewardError } from "../../errors.ts";

let guarding = false;

/** From now on, for whoever is part of a dry run; for everybody else nothing changes. */
export function refuseConnections(): void {
  if (guarding) return;
  guarding = true;
  // oxlint-disable-next-line typescript/unbound-method -- called with the socket it belongs to
  const { connect } = Socket.prototype;
  Socket.prototype.connect = function (this: Socket, ...args: Parameters<typeof connect>): Socket {
    const dry = guardedDryRun();
    if (!dry) return connect.apply(this, args);
    const to = addressOf(args);
    dry.refused.push(to);
    const error = new OncewardError(
      "dry_run",
      `A dry run calls nobody, and this connects to ${to}. Put such calls into a step of a job.`,
    );
    // Whoever made the socket has yet to listen for its errors.
    process.nextTick(() => this.destroy(error));
    return this;
  } as typeof connect;
}

/** From what `connect` takes: a path, a port and a host, or options; Node itself hands them over as a list in a list. */
function addressOf(args: readonly unknown[]): string {
  const [first, second] = Array.isArray(args[0]) ? (args[0] as unknown[]) : args;
  const options =
    typeof first === "object" && first !== null
      ? (first as { path?: string; host?: string; port?: number })
      : typeof first === "string"
        ? { path: first }
        : { port: first as number, host: typeof second === "string" ? second : "localhost" };
  if ("path" in options && options.path) return options.path;
  return "host" in options ? `${options.host ?? "localhost"}:${options.port}` : "somewhere";
}
