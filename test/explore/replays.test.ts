import { exploring } from "./suite.ts";
import { replayWorkloads } from "./workloads/index.ts";

exploring("replays and pruning in between", replayWorkloads);
