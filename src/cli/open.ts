import { existsSync } from "node:fs";
import type { Config } from "../config.ts";
import { checkSchema } from "../ledger/migrate.ts";
import { createOnce, type Once } from "../once.ts";
import { withAddress } from "./address.ts";
import { configIn, loadConfig } from "./config.ts";
import { Failure } from "./fail.ts";
import { developmentSecret, folder } from "./settings.ts";

export interface OpenOptions {
  /** A folder with an onceward.config.ts, or the file. */
  readonly config?: string | undefined;
  readonly database?: string | undefined;
  readonly schema?: string | undefined;
}

export interface Opened {
  readonly once: Once<unknown>;
  /** Undefined where only a database was named: then no handlers are known. */
  readonly config: Config<unknown> | undefined;
  close(): Promise<void>;
}

/** A ledger whose schema nobody has looked at. `url` where it was found by one. */
export interface Found extends Pick<Opened, "once" | "config"> {
  readonly url: string | undefined;
}

/**
 * The one way to a ledger for commands: the configuration or the database that was named, else the configuration in
 * this folder, DATABASE_URL, or the embedded database of this folder. A command never migrates, but for the one that is
 * there for it: it says what is missing.
 */
export async function openLedger(options: OpenOptions): Promise<Opened> {
  const { once, config, url } = await findLedger(options);
  const close = (): Promise<void> => once.stop({ graceMs: 0 });
  try {
    await checkSchema(once.database, { schema: once.engine.ledger.schema });
  } catch (error) {
    await close().catch(() => undefined);
    throw withAddress(error, url);
  }
  return { once, config, close };
}

/**
 * The same without looking at the schema, for a command that says itself what is wrong with it. `make`: where there is
 * none, an embedded database is made.
 */
export async function findLedger(
  options: OpenOptions,
  { make = false }: { readonly make?: boolean } = {},
): Promise<Found> {
  const { config: target, database = process.env["DATABASE_URL"], schema } = options;
  if (target !== undefined && options.database !== undefined)
    throw new Failure("--config and --database exclude each other: a configuration names its own database.");
  if (target !== undefined || (options.database === undefined && configIn("."))) {
    developmentSecret(); // As `serve` does: the same configuration needs the same environment.
    const { config } = (await loadConfig(target)) as unknown as { config: Config<unknown> };
    return { once: config.once, config, url: undefined };
  }
  if (database === undefined && !make && !existsSync(`${folder}/db/data`)) {
    throw new Failure(
      "There is no ledger here: neither an onceward.config.ts (name its folder with --config), nor DATABASE_URL, nor an embedded database in ./.onceward.",
    );
  }
  const once = createOnce({ database: database ?? "embedded", schema, migrate: false });
  return { once: once as Once<unknown>, config: undefined, url: database };
}
