import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Database, Transaction } from "onceward";
import { mailFolder } from "./mail-folder.ts";

/** For `onceward storm`: what took place for the objects whose id holds the tag. */
export async function effects(
  database: Database<Transaction>,
  tag: string,
): Promise<Record<string, string[]>> {
  const ids = async (column: string, table: string): Promise<string[]> => {
    const { rows } = await database.query(
      `select ${column} as id from store.${table} where strpos(${column}, $1) > 0`,
      [tag],
    );
    return rows.map((row) => String(row["id"]));
  };
  return {
    orders: await ids("session_id", "orders"),
    credits: await ids("invoice_id", "credits"),
    access: await ids("customer || ' ' || status", "access"),
    mails: await mailedOrders(tag),
  };
}

/** The orders that mails in the folder are about, one for each mail. */
async function mailedOrders(tag: string): Promise<string[]> {
  const files = await readdir(mailFolder).catch(() => []);
  const texts = await Promise.all(
    files.filter((file) => file.endsWith(".eml")).map((file) => readFile(join(mailFolder, file), "utf8")),
  );
  const order = new RegExp(`Order (\\w*${tag}\\w*)`);
  return texts.map((text) => order.exec(text.replaceAll("=\r\n", ""))?.[1]).filter((id) => id !== undefined);
}
