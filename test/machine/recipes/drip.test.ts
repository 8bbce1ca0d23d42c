import { describe, expect, it } from "vitest";
import { drip } from "../../../examples/recipes/drip.ts";
import type { Once } from "../../../src/once.ts";
import { day } from "../support.ts";
import type { Order } from "./child.ts";
import { type Plan, Provider } from "./provider.ts";
import { scenes, untilKilled } from "./support.ts";

const letters = ["welcome", "social proof", "first dollar"];

describe("the drip", () => {
  const scene = scenes();

  async function open(plan?: Plan) {
    const { bench } = scene();
    const provider = new Provider(bench.database, plan);
    await provider.open();
    const machine = drip(bench.once as unknown as Once, ({ letter }, key) => provider.send(letter, key));
    return { bench, provider, machine };
  }

  it("sends each letter once, in order, days apart", async () => {
    const { bench, provider, machine } = await open();
    await bench.engine.start();
    await machine.move("cus_1", "welcome");
    await bench.settle();
    expect(await provider.sent()).toEqual(letters.slice(0, 1));
    await bench.pass(2 * day);
    expect(await provider.sent()).toEqual(letters.slice(0, 2));
    await bench.pass(2 * day);
    expect(await provider.sent()).toEqual(letters.slice(0, 2));
    await bench.pass(day);
    await bench.pass(100 * day);
    expect(await provider.sent()).toEqual(letters);
    expect(await machine.state("cus_1")).toMatchObject({ state: "finished", version: 3 });
  });

  it("welcomes a customer once, however often he is announced", async () => {
    const { bench, provider, machine } = await open();
    await bench.engine.start();
    const answers = await Promise.all(Array.from({ length: 20 }, () => machine.move("cus_1", "welcome")));
    expect(answers.filter(({ outcome }) => outcome === "moved")).toHaveLength(1);
    await bench.settle();
    expect(await machine.move("cus_1", "welcome")).toMatchObject({ outcome: "refused", state: "welcomed" });
    await bench.settle();
    expect(await provider.sent()).toEqual(["welcome"]);
  });

  it("loses no letter whose sending fails, and lets none overtake it", async () => {
    let away = true;
    const { bench, provider, machine } = await open((letter) =>
      letter === "welcome" && away ? "refuse" : "take",
    );
    await bench.engine.start();
    await machine.move("cus_1", "welcome");
    for (let hours = 0; hours < 50; hours += 5) await bench.pass(day * (5 / 24));
    expect(await machine.state("cus_1")).toMatchObject({ state: "convinced" });
    expect(await provider.sent()).toEqual([]);
    away = false;
    await bench.pass(day / 4);
    await bench.settle();
    expect(await provider.sent()).toEqual(["welcome", "social proof"]);
  });

  it("sends one letter where the provider's answer is lost", async () => {
    let cut = true;
    const { bench, machine } = await open(() => {
      const plan = cut ? "take and fail" : "take";
      cut = false;
      return plan;
    });
    await bench.engine.start();
    await machine.move("cus_1", "welcome");
    await bench.settle();
    await bench.pass(60_000);
    expect(await bench.rows("select text, calls from provider")).toEqual([{ text: "welcome", calls: 2 }]);
  });

  it("stops when the customer has had enough", async () => {
    const { bench, provider, machine } = await open();
    await bench.engine.start();
    await machine.move("cus_1", "welcome");
    await bench.settle();
    await machine.move("cus_1", "stop");
    await bench.pass(100 * day);
    expect(await provider.sent()).toEqual(["welcome"]);
    expect(await machine.move("cus_2", "stop")).toMatchObject({ outcome: "moved" });
    expect(await machine.move("cus_2", "welcome")).toMatchObject({ outcome: "refused" });
  });

  it.each<Order["die"]>([
    "before the move is committed",
    "after the move",
    "before the mail is sent",
    "after the mail was sent",
  ])("goes on where a process was killed %s", async (die) => {
    const { bench, provider, machine } = await open();
    expect(await untilKilled({ url: scene().url, recipe: "drip", die })).toBe("SIGKILL");
    await bench.engine.start();
    // Whoever announced the customer does it again, since nobody answered.
    const again = await machine.move("cus_1", "welcome");
    expect(again.outcome).toBe(die === "before the move is committed" ? "moved" : "refused");
    // The lease of the dead process runs out.
    await bench.pass(120_000);
    expect(await provider.sent()).toEqual(["welcome"]);
    await bench.pass(2 * day);
    await bench.pass(3 * day);
    expect(await provider.sent()).toEqual(letters);
    expect(await machine.history("cus_1")).toHaveLength(3);
  });
});
