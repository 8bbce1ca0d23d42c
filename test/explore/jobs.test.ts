import { exploring } from "./suite.ts";
import { jobWorkloads } from "./workloads/index.ts";

exploring("jobs and their steps", jobWorkloads);
