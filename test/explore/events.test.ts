import { exploring } from "./suite.ts";
import { eventWorkloads } from "./workloads/index.ts";

exploring("events, delivered again and again", eventWorkloads);
