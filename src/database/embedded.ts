import type { Database } from "./database.ts";
export function embeddedDatabase(): Database {
  throw new Error();
}
