import type { Source } from "./source/source.ts";
import type { Engine } from "./worker/engine.ts";

/** So often that Node compiles what runs: 20 ms for a source. */
const deliveries = 500;
/** So often that each connection has its plans, and Node has compiled the driver: 15 ms for a connection. */
const rounds = 10;

/**
 * Has everything run that the first deliveries need, without any effect: the connections of the pool, the plans that
 * each keeps of the ledger's statements, and the code that reads deliveries. Measured in the first storm of a new
 * process (bench/, section storm): what unrelated events wait for is a fifth less.
 */
export async function warmUp(engine: Engine, sources: Iterable<Source>): Promise<void> {
  await engine.ready();
  for (const source of sources) readSamples(source);
  const { single, connections = 1 } = engine.database;
  const places = Array.from({ length: single ? 1 : connections }, () => planStatements(engine));
  // Where the server grants fewer connections than the pool may open, the others are warm all the same.
  await Promise.allSettled(places);
}

function readSamples(source: Source): void {
  source.check?.();
  const sample = source.sample?.(Date.now());
  if (!sample) return;
  for (let i = 0; i < deliveries; i++) {
    source.verify(sample, Date.now());
    source.identify(sample);
  }
}

/** Statements that find nothing to do: what has no name is refused, what was never claimed is lost. */
async function planStatements({ database, ledger }: Engine): Promise<void> {
  const nobody = { scope: "onceward", key: "nobody", attempt: 1 };
  await database.transaction(async (_, queryable) => {
    const verbs = ledger.within(queryable);
    for (let i = 0; i < rounds; i++) {
      for (const nameless of [[""], ["", ""]]) {
        await verbs.call("record_many", [
          nameless,
          nameless,
          nameless,
          null,
          null,
          null,
          "1 second",
          "nobody",
        ]);
        await verbs.complete(nameless.map(() => nobody));
      }
    }
  });
}
