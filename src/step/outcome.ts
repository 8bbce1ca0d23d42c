import { OncewardError } from "../errors.ts";

/**
 * Throw it from a step when it is certain that nothing happened outside: the connection was refused, the
 * provider said "try later". The step then runs again whatever its policy for the unknown outcome is.
 */
export class NotDone extends OncewardError {
  override readonly name: string = "NotDone";
  constructor(message: string, options?: ErrorOptions) {
    super("not_done", message, options);
  }
}
