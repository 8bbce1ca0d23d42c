/**
 * Drivers are optional: whoever brings a pool needs none of the others. The imports stand inside `try`, as bundlers
 * take only those for optional.
 */
import { OncewardError } from "../errors.ts";

export async function loadPg() {
  try {
    return (await import("pg")).default;
  } catch (error) {
    throw asDriverMissing("pg", error);
  }
}

export async function loadPglite() {
  try {
    return (await import("@electric-sql/pglite")).PGlite;
  } catch (error) {
    throw asDriverMissing("@electric-sql/pglite", error);
  }
}

/** `driver_missing` if it is this package that could not be found, else the very same error. */
export function asDriverMissing(name: string, error: unknown): unknown {
  const { code, message } = error instanceof Error ? (error as NodeJS.ErrnoException) : {};
  const isMissing = code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND";
  if (!isMissing || !message?.includes(`'${name}'`)) return error;
  return new OncewardError(
    "driver_missing",
    `The package ${name} is not installed. Run: npm install ${name}`,
    {
      cause: error,
    },
  );
}
