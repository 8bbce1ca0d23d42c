import { exploring } from "./suite.ts";
import { hotWorkloads } from "./workloads/index.ts";

exploring("hot keys, and others beside them", hotWorkloads);
