/** Everything that is explored. */
import type { Workload } from "../scene.ts";
import { actions } from "./actions.ts";
import { conflict } from "./conflict.ts";
import { events } from "./events.ts";
import { failing } from "./failing.ts";
import { heats, hot } from "./hot.ts";
import { moves } from "./moves.ts";
import { replays } from "./replays.ts";
import { serial } from "./serial.ts";
import { steps } from "./steps.ts";
import { together } from "./together.ts";
import { twins } from "./twins.ts";

export const eventWorkloads: readonly Workload[] = [
  events({ answer: "queued", processes: ["A", "B"], deliveries: 2 }),
  events({ answer: "inline", processes: ["A", "B"], deliveries: 2 }),
  events({ answer: "queued", processes: ["A", "B", "C"], deliveries: 3 }),
  together(),
];

export const jobWorkloads: readonly Workload[] = [
  steps({ unknown: "retry", honoursKeys: true }),
  steps({ unknown: "never", honoursKeys: false }),
  steps({ unknown: "verify", honoursKeys: false }),
  failing(),
  serial(["A", "B"]),
];

export const keyWorkloads: readonly Workload[] = [twins("queued"), twins("inline")];

export const actionWorkloads: readonly Workload[] = [
  conflict("queued"),
  conflict("inline"),
  actions(true),
  actions(false),
];

export const replayWorkloads: readonly Workload[] = [
  replays({ again: false, prune: true }),
  replays({ again: true, prune: true }),
];

export const moveWorkloads: readonly Workload[] = [moves({ by: "events" }), moves({ by: "jobs" })];

export const hotWorkloads: readonly Workload[] = heats.map(hot);

export const workloads = [
  ...eventWorkloads,
  ...jobWorkloads,
  ...keyWorkloads,
  ...actionWorkloads,
  ...replayWorkloads,
  ...moveWorkloads,
  ...hotWorkloads,
];
