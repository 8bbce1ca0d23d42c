import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Database, Transaction } from "onceward";
import { mailFolder } from "./mail-folder.ts";

/** For `onceward storm`: what took place for the objects whose id holds the tag. */
export async function effects(
  database: Database<Transaction>,
  tag: string,
): Promise<Record<string, string[]>> {
  const ids = async (select: string): Promise<string[]> => {
    const { rows } = await database.query(`select id from (${select}) as of where strpos(id, $1) > 0`, [tag]);
    return rows.map((row) => String(row["id"]));
  };
  return {
    orders: await ids("select session_id as id from store.orders"),
    credits: await ids("select invoice_id as id from store.credits where amount >= 0"),
    refunds: await ids("select invoice_id || ' ' || amount as id from store.credits where amount < 0"),
    access: await ids("select customer || ' ' || status as id from store.access"),
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
