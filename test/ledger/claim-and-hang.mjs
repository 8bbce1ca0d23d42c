/** A worker that claims what is due, says so, and then never answers. Its parent kills it. */
import pg from "pg";

const [url, lane] = process.argv.slice(2);
const client = new pg.Client({ connectionString: url });
await client.connect();
const { rows } = await client.query(
  "select onceward.claim_due(array[$1], '10', '60 seconds', 'child') as answer",
  [lane],
);
process.send(rows[0].answer.tasks.map((task) => task.key));
setInterval(() => {}, 60_000);
