import { exploring } from "./suite.ts";
import { keyWorkloads } from "./workloads/index.ts";

exploring("keys that take effect once", keyWorkloads);
