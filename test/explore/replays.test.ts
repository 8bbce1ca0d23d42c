import { exploring } from "./suite.ts";
import { actionWorkloads, replayWorkloads } from "./workloads/index.ts";

exploring("replays and pruning in between", replayWorkloads);
exploring("actions taken twice, and one id with two contents", actionWorkloads);
