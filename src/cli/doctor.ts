import { dirname, resolve } from "node:path";
import type { Command } from "commander";
import { judgeEnvironment } from "../doctor/environment.ts";
import { type Finding, Findings } from "../doctor/finding.ts";
import { judgeMaking, judgeRefusal } from "../doctor/refusal.ts";
import { stripeAccess } from "../doctor/stripe-endpoints.ts";
import { messageOf, OncewardError } from "../errors.ts";
import { checkSchema } from "../ledger/migrate.ts";
import { plain } from "../terminal.ts";
import { withAddress } from "./address.ts";
import { ledgerCommand, type LedgerOptions } from "./command.ts";
import { configIn } from "./config.ts";
import { foundSomething } from "./fail.ts";
import { findLedger } from "./open.ts";
import { Output } from "./output.ts";

/** `onceward doctor`. */
export function doctorCommand(): Command {
  return ledgerCommand("doctor", "look at the database and the configuration, and say what to do").action(
    async (options: LedgerOptions) => {
      const findings = await examined(options);
      const wrong = findings.filter(({ level }) => level === "wrong").length;
      const advice = findings.length - wrong;
      if (wrong > 0) foundSomething();
      new Output(options).answer({ wrong, advice, findings }, () => [
        ...findings.map(
          ({ level, about, what, todo }) =>
            `${level === "wrong" ? "✗" : "·"} ${about}: ${plain(what)}\n    ${plain(todo)}`,
        ),
        findings.length === 0 ? "Nothing is wrong." : `${wrong} wrong, ${advice} to consider.`,
      ]);
    },
  );
}

async function examined(options: LedgerOptions): Promise<Finding[]> {
  // Before the configuration is loaded: for development a missing secret is made up then.
  const env = { ...process.env };
  const findings = judgeEnvironment(env);
  const about = new Findings("configuration");
  const ledger = new Findings("ledger");
  const opened = await findLedger(options).catch((error: unknown) => {
    about.wrong("configuration", messageOf(error), "Mend it, and run this command again.");
  });
  if (!opened) return [...findings, ...about.all];
  const { once, config, url } = opened;
  const { schema } = once.engine.ledger;
  try {
    await checkSchema(once.database, { schema });
    const found = await once.recovery.doctor({
      folder: config && folderOf(options.config),
      url: once.database.name === "pg" ? (options.database ?? env["DATABASE_URL"]) : undefined,
      stripe: stripeAccess(env),
    });
    return [...findings, ...found];
  } catch (thrown) {
    const error = withAddress(thrown, url);
    const refused = await judgeRefusal(once.database, schema, error);
    if (refused) return [...findings, ...refused];
    if (!(error instanceof OncewardError)) throw error;
    ledger.wrong(error.code, error.message, todoFor(error));
    const making = error.code === "schema_missing" ? await judgeMaking(once.database) : [];
    return [...findings, ...ledger.all, ...making];
  } finally {
    await once.stop({ graceMs: 0 }).catch(() => undefined);
  }
}

function todoFor({ code }: OncewardError): string {
  if (code === "schema_missing" || code === "schema_outdated") return "Run: onceward migrate";
  if (code === "database_unavailable" || code === "pool_exhausted")
    return "Check the URL, the network and that the server runs.";
  return "See the message.";
}

function folderOf(target = "."): string {
  const path = resolve(target);
  return configIn(path) ? path : dirname(path);
}
