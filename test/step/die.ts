/**
 * Kills its own process at one point of its talk with the world: DIE_AT counts every piece of data that
 * leaves through a TCP socket (before it does) or comes in (before anybody sees it). Between two such points
 * a program does nothing that anybody else could notice. Imported before the program.
 */
import { Socket } from "node:net";

const dieAt = Number(process.env["DIE_AT"] ?? 0);
const { write, push } = Socket.prototype;
let passed = 0;

function pass(socket: Socket): void {
  // Not the pipes of stdout and the like.
  if (socket.remotePort === undefined && !socket.connecting) return;
  passed++;
  if (passed === dieAt) process.kill(process.pid, "SIGKILL");
}

Socket.prototype.write = function (this: Socket, ...args: unknown[]) {
  pass(this);
  return Reflect.apply(write, this, args) as boolean;
};

Socket.prototype.push = function (this: Socket, chunk: unknown, ...rest: []) {
  if (chunk !== null) pass(this);
  return Reflect.apply(push, this, [chunk, ...rest]) as boolean;
};
