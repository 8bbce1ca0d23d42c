import { exploring } from "./suite.ts";
import { jobWorkloads, keyWorkloads } from "./workloads/index.ts";

exploring("jobs and their steps", jobWorkloads);
exploring("keys that take effect once", keyWorkloads);
