import { exploring } from "./suite.ts";
import { actionWorkloads } from "./workloads/index.ts";

exploring("actions taken twice, and one id with two contents", actionWorkloads);
