import { describe, expect, it } from "vitest";
import type { ClaimedTask } from "../../src/ledger/task.ts";
import type { Lane } from "../../src/worker/lane.ts";
import { Places } from "../../src/worker/places.ts";
import { lane } from "./support.ts";

const task = (body = "1"): ClaimedTask => ({ body }) as unknown as ClaimedTask;

function run(places: Places, one: Lane, count: number): void {
  for (let i = 0; i < count; i++) {
    expect(places.mayStart(one)).toBe(true);
    places.expect(one);
    places.start(one);
  }
}

/** As if so many had run and ended, each in so many ms. */
function ran(places: Places, one: Lane, ms: number, body?: string): void {
  for (let i = 0; i < 50; i++) {
    run(places, one, 1);
    places.end(one, task(body), ms);
    places.leave();
  }
}

describe("places", () => {
  it("are all for a lane that is alone", () => {
    const one = lane("one");
    const places = new Places([one], 4);
    run(places, one, 4);
    expect(places.mayStart(one)).toBe(false);
    expect(places.room(one)).toBe(0);
  });

  it("are kept for every lane that runs nothing, however many are full", () => {
    const lanes = Array.from({ length: 6 }, (_, i) => lane(`${i}`));
    const places = new Places(lanes, 32);
    for (const one of lanes.slice(0, 5)) {
      while (places.mayStart(one)) run(places, one, 1);
    }
    expect(places.anyFree).toBe(true);
    expect(places.mayStart(lanes[5]!)).toBe(true);
  });

  it("are not kept beyond a quarter, however many lanes there are", () => {
    const lanes = Array.from({ length: 100 }, (_, i) => lane(`${i}`));
    const places = new Places(lanes, 32);
    run(places, lanes[0]!, 24);
    expect(places.mayStart(lanes[0]!)).toBe(false);
    expect(places.mayStart(lanes[1]!)).toBe(true);
  });

  it("can all be used when the others have used theirs", () => {
    const [a, b] = [lane("a"), lane("b")];
    const places = new Places([a, b], 8);
    run(places, a, 7);
    expect(places.mayStart(a)).toBe(false);
    run(places, b, 1);
    expect(places.anyFree).toBe(false);
    places.end(b, task(), 1_000);
    run(places, b, 1);
  });

  it("ask for what fits, whichever lanes it comes from", () => {
    const lanes = [lane("a"), lane("b"), lane("c"), lane("d", undefined, { concurrency: 2 })];
    const places = new Places(lanes, 16);
    const ask = places.ask()!;
    expect(ask.limits["d"]).toEqual({ max: 2 });
    // All of one lane, or spread over several: everything that comes can start.
    for (const mix of [[0], [1, 2], [0, 1, 2], [2]]) {
      const tried = new Places(lanes, 16);
      for (let i = 0; i < ask.max; i++) run(tried, lanes[mix[i % mix.length]!]!, 1);
    }
  });

  it("take quick tasks ahead, and slow ones not", () => {
    const [quick, slow] = [lane("quick"), lane("slow")];
    const places = new Places([quick, slow], 4);
    expect(places.room(quick)).toBe(4 - 1);
    ran(places, quick, 0.1);
    ran(places, slow, 1_000);
    expect(places.room(quick)).toBeGreaterThan(64);
    expect(places.room(slow)).toBe(4 - 1);
    places.slow(quick, 1_000);
    expect(places.room(quick)).toBe(4 - 1);
  });

  it("take few ahead whose payloads are large, and none that others count", () => {
    const [large, limited] = [lane("large"), lane("limited", undefined, { limit: { running: 100 } })];
    const places = new Places([large, limited], 8);
    ran(places, large, 0.1, "x".repeat(4 * 1024 * 1024));
    ran(places, limited, 0.1);
    expect(places.room(large)).toBeLessThan(8 + 4);
    expect(places.room(limited)).toBe(7);
  });

  it("know which lanes may have more, and when there is room for it", () => {
    const [a, b] = [lane("a"), lane("b", undefined, { concurrency: 1 })];
    const places = new Places([a, b], 8);
    places.ask();
    run(places, a, 1);
    run(places, b, 1);
    // Of b came all that was asked for, of a less.
    places.answered([a, b]);
    expect(places.hasRoomForMore).toBe(false);
    places.end(a, task(), 1_000);
    expect(places.hasRoomForMore).toBe(false);
    places.end(b, task(), 1_000);
    expect(places.hasRoomForMore).toBe(true);
  });

  it("go to what is recorded here for a while only, where more waits in the ledger", () => {
    const one = lane("one");
    const places = new Places([one], 2);
    /** Takes an offer, and ends it. */
    const offer = (): boolean => {
      if (!places.takeOffer(one)) return false;
      places.start(one);
      places.end(one, task(), 1_000);
      places.leave();
      return true;
    };
    for (let i = 0; i < 100; i++) expect(offer()).toBe(true);
    places.ask();
    run(places, one, 2);
    places.answered([one, one]);
    for (let i = 0; i < 2; i++) places.end(one, task(), 1_000);
    expect(Array.from({ length: 100 }, offer).filter(Boolean)).toHaveLength(8);
    places.ask();
    expect(offer()).toBe(true);
    places.answered([]);
    for (let i = 0; i < 100; i++) expect(offer()).toBe(true);
  });

  it("are not worth a query for a single one while many are taken ahead", () => {
    const one = lane("one");
    const places = new Places([one], 4);
    ran(places, one, 0.01);
    let taken = 0;
    for (; places.room(one) > 1; taken++) places.expect(one);
    expect(taken).toBeGreaterThan(80);
    expect(places.ask()).toBeUndefined();
    expect(places.hasRoomForMore).toBe(false);
    for (let i = 0; i < taken / 2; i++) places.dismiss(one);
    expect(places.hasRoomForMore).toBe(true);
    expect(places.ask()?.max).toBeGreaterThan(80);
  });
});
