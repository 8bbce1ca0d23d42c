import { expect, it } from "vitest";
import { effect, event, openApp } from "../handler/support.ts";
import { describeWith } from "../support/postgres.ts";
import { listen, sender } from "./http.ts";

describeWith("newest", "a storm of a thousand duplicates over HTTP", (database) => {
  it.each(["queued", "inline"] as const)(
    "has one effect, and unrelated events get through (%s)",
    async (answer) => {
      const app = await openApp(database().url, { source: { answer } });
      const duplicated = event("invoice.paid");
      let goOn: (() => void) | undefined;
      const unrelatedAreThrough = new Promise<void>((resolve) => (goOn = resolve));
      let begun: (() => void) | undefined;
      const stormIsHandled = new Promise<void>((resolve) => (begun = resolve));
      app.billing.on("invoice.paid", async ({ event: { id }, tx }) => {
        // The storm's handler ends only when the unrelated events have got through beside it.
        if (id === duplicated.id) {
          begun?.();
          await unrelatedAreThrough;
        }
        await effect(tx, id);
      });
      if (answer === "queued") await app.engine.start();
      const { server, port } = await listen(app.billing);
      const { send, close } = sender(1000);

      const storm = Promise.all(Array.from({ length: 1000 }, () => send(port, duplicated)));
      await stormIsHandled;
      const unrelated = Array.from({ length: 100 }, () => event("invoice.paid"));
      const good = answer === "queued" ? "accepted" : "done";
      const others = sender(8);
      for (const sent of await Promise.all(unrelated.map((one) => others.send(port, one)))) {
        expect(sent).toEqual({ status: 200, outcome: good });
      }
      await Promise.all(unrelated.map(({ id }) => app.settled(id)));
      goOn?.();

      const answers = await storm;
      await app.settled(duplicated.id);
      expect(await app.effectsOf(duplicated.id)).toEqual(["done"]);
      for (const { id } of unrelated) expect(await app.effectsOf(id)).toEqual(["done"]);
      // Queued, one may have recorded it, and another have found room for it at once: it was accepted either way.
      const first = answers.filter(({ outcome }) => outcome === good).length;
      expect(first).toBeGreaterThan(0);
      if (answer === "inline") expect(first).toBe(1);
      const rest = answers.filter(({ outcome }) => outcome !== good);
      // Inline, who had waited for long enough was sent away to come again; nobody was told a lie.
      for (const one of rest) {
        expect(one).toEqual(
          one.status === 409 && answer === "inline"
            ? { status: 409, outcome: "already_running" }
            : { status: 200, outcome: "duplicate" },
        );
      }
      expect(await app.look("stripe", duplicated.id)).toMatchObject({ state: "done", attempt: 1 });
      close();
      others.close();
      server.closeAllConnections();
      server.close();
      await app.close();
    },
  );
});
