/** Drivers are optional: whoever brings a pool needs none of the others. */
import { OncewardError } from "../errors.ts";

/** Loads an optional package, or says how to get it. `load` is `() => import("name")`, so that bundlers see it. */
export async function importDriver<Module>(name: string, load: () => Promise<Module>): Promise<Module> {
  try {
    return await load();
  } catch (error) {
    if (!isMissing(error, name)) throw error;
    throw new OncewardError(
      "driver_missing",
      `The package ${name} is not installed. Run: npm install ${name}`,
      {
        cause: error,
      },
    );
  }
}

function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  return (
    (code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND") && error.message.includes(`'${name}'`)
  );
}
