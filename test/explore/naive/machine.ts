/** How machines are made by hand, each way with its hole: verbs that the real machine is given instead of the ledger's. */
import type { Verbs } from "../../../src/ledger/verbs.ts";

/** Looks whether the state allows the move, and moves: no compare-and-set, so that the state may be another one by then. */
export function lookThenMove(verbs: Verbs): Verbs {
  const move = verbs.move.bind(verbs);
  verbs.move = async (wanted) => {
    const { machine, subject, initial, from } = wanted;
    const { state, version } = (await verbs.machineState(machine, subject)) ?? { state: initial, version: 0 };
    if (!from.includes(state)) return { outcome: "refused", state, version };
    return move({ ...wanted, from: ["active", "past_due", "canceled"] });
  };
  return verbs;
}

/** A timer that asks whether its state is there, and not whether it is still the timer of it: neither list nor fence. */
export function moveByStateAlone(verbs: Verbs): Verbs {
  const move = verbs.move.bind(verbs);
  const completeLast = verbs.completeLast.bind(verbs);
  verbs.move = async ({ timer, ...wanted }) => {
    const known = timer === undefined ? undefined : await verbs.machineState(wanted.machine, wanted.subject);
    const isListed = known?.timers.some(({ key }) => key === timer);
    return move({ ...wanted, timer: isListed ? timer : undefined });
  };
  verbs.completeLast = async (claim) => {
    if (claim.scope.startsWith("machine/")) await verbs.complete([claim]);
    else await completeLast(claim);
  };
  return verbs;
}
