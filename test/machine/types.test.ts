/** What the compiler says about machines. `npm run check` compiles this file; an expected error that does not occur is one. */
import { expectTypeOf, it } from "vitest";
import type { PgClient } from "../../src/database/pg.ts";
import { defineMachine, type Moving } from "../../src/machine/machine.ts";
import type { Engine } from "../../src/worker/engine.ts";

it("knows the names of its states and moves, and what each move is given", () => {
  expectTypeOf(check).toBeFunction();
});

function check(engine: Engine<PgClient>): void {
  const sub = defineMachine(engine, "subscription", {
    initial: "new",
    states: { new: {}, active: { after: { "3 days": "cancel" } }, canceled: {} },
    moves: {
      activate: {
        from: ["new", "canceled"],
        to: "active",
        run: ({ data }: Moving<{ plan: string }>) => data.plan,
      },
      cancel: {
        from: ["active"],
        to: "canceled",
        run({ from, tx, data, after }) {
          expectTypeOf(from).toEqualTypeOf<"new" | "active" | "canceled">();
          expectTypeOf(tx).toEqualTypeOf<PgClient>();
          expectTypeOf(data).toEqualTypeOf<unknown>();
          expectTypeOf(after).toEqualTypeOf<string | undefined>();
        },
      },
    },
  });

  const moved = sub.move("s1", "cancel");
  expectTypeOf(moved).resolves.toHaveProperty("outcome").toEqualTypeOf<"moved" | "refused">();
  expectTypeOf(moved).resolves.toHaveProperty("state").toEqualTypeOf<"new" | "active" | "canceled">();
  expectTypeOf(sub.history("s1"))
    .resolves.items.toHaveProperty("move")
    .toEqualTypeOf<"activate" | "cancel">();
  void sub.move("s1", "activate", { data: { plan: "pro" } });
  // @ts-expect-error -- no such move
  void sub.move("s1", "actvate");
  // @ts-expect-error -- this move is given data
  void sub.move("s1", "activate");
  // @ts-expect-error -- data of another type
  void sub.move("s1", "activate", { data: { plan: 1 } });
  // @ts-expect-error -- a transaction of another library
  void sub.move("s1", "cancel", { tx: { run: () => undefined } });

  defineMachine(engine, "m", {
    // @ts-expect-error -- no such state
    initial: "nw",
    states: { new: {}, active: {} },
    moves: { activate: { from: ["new"], to: "active" } },
  });
  defineMachine(engine, "m", {
    initial: "new",
    states: { new: {}, active: {} },
    // @ts-expect-error -- from no such state
    moves: { activate: { from: ["nw"], to: "active" } },
  });
  defineMachine(engine, "m", {
    initial: "new",
    states: { new: {}, active: {} },
    // @ts-expect-error -- to no such state
    moves: { activate: { from: ["new"], to: "actve" } },
  });
  defineMachine(engine, "m", {
    initial: "new",
    // @ts-expect-error -- no such move
    states: { new: {}, active: { after: { "3 days": "cancl" } }, canceled: {} },
    moves: { activate: { from: ["new"], to: "active" }, cancel: { from: ["active"], to: "canceled" } },
  });
  defineMachine(engine, "m", {
    initial: "new",
    // @ts-expect-error -- a timer has no data to give
    states: { new: {}, active: { after: { "3 days": "cancel" } }, canceled: {} },
    moves: {
      activate: { from: ["new"], to: "active" },
      cancel: { from: ["active"], to: "canceled", run: ({ data }: Moving<{ why: string }>) => data.why },
    },
  });
}
