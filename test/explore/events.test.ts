import { exploring } from "./suite.ts";
import { eventWorkloads, keyWorkloads } from "./workloads/index.ts";

exploring("events, delivered again and again", eventWorkloads);
exploring("keys that take effect once", keyWorkloads);
