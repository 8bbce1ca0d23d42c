import type { Fault } from "../fault.ts";
import { clock } from "./clock.ts";
import { cutAfter, cutBefore } from "./cut.ts";
import { diskFull } from "./disk-full.ts";
import { failover } from "./failover.ts";
import { hang } from "./hang.ts";
import { killServer, killWorker } from "./kill.ts";
import { pause } from "./pause.ts";
import { pgbouncer } from "./pgbouncer.ts";
import { postgres } from "./postgres.ts";

export const faults: readonly Fault[] = [
  killServer,
  killWorker,
  pause,
  postgres,
  cutBefore,
  cutAfter,
  hang,
  pgbouncer,
  failover,
  diskFull,
  clock,
];
