/** A database that does not let us in, or not far enough to be examined. */
import type { Queryable } from "../database/database.ts";
import { sqlStateOf } from "../database/failure.ts";
import { quoteIdentifier } from "../ledger/schema.ts";
import { causeOf } from "../observe.ts";
import { type Finding, Findings } from "./finding.ts";

/** What a role needs that runs the ledger and does not own it: see sql/009_access.sql. */
export function grantsFor(schema: string, role: string): string {
  const [where, whom] = [`schema ${quoteIdentifier(schema)}`, quoteIdentifier(role)];
  return [
    `grant usage on ${where} to ${whom};`,
    `grant select, insert, update, delete on all tables in ${where} to ${whom};`,
    `grant execute on all routines in ${where} to ${whom};`,
  ].join(" ");
}

/** What is wrong where a statement was refused; undefined where the error says nothing of that. */
export async function judgeRefusal(
  database: Queryable,
  schema: string,
  error: unknown,
): Promise<Finding[] | undefined> {
  const state = sqlStateOf(error) ?? "";
  if (state === "42501") {
    const { role } = await whoAmI(database);
    const about = new Findings("ledger");
    about.wrong(
      "privileges",
      `The role ${role} may not use the schema ${schema}.`,
      `As its owner: ${grantsFor(schema, role)}`,
    );
    return about.all;
  }
  if (!/^(3D000|28P01|28000)$/.test(state)) return undefined;
  const about = new Findings("database");
  about.wrong(
    "refused",
    causeOf(error),
    "Check the user, the password and the name of the database in its URL.",
  );
  return about.all;
}

/** Where there is no ledger yet: whether this role may make one. */
export async function judgeMaking(database: Queryable): Promise<Finding[]> {
  const { role, name, may_create: may } = await whoAmI(database);
  const about = new Findings("ledger");
  if (!may)
    about.wrong(
      "privileges",
      `The role ${role} may not make a schema in this database.`,
      "Run onceward migrate as the owner of the database, or as a superuser: " +
        `grant create on database ${quoteIdentifier(name)} to ${quoteIdentifier(role)};`,
    );
  return about.all;
}

interface Identity {
  readonly role: string;
  readonly name: string;
  readonly may_create: boolean;
}

/** By the database's own word. */
export async function whoAmI(database: Queryable): Promise<Identity> {
  const { rows } = await database.query(
    `select current_user::text as role, current_database()::text as name,
       has_database_privilege(current_database(), 'create') as may_create`,
  );
  return rows[0] as unknown as Identity;
}
