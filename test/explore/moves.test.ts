import { exploring } from "./suite.ts";
import { moveWorkloads } from "./workloads/index.ts";

exploring("subjects that move", moveWorkloads);
