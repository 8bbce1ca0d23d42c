/** The shapes of a lane: how much of it may be claimed, and what is in it. */

/** How much of a lane may be claimed; `running` and `rate` hold across all workers. */
export interface LaneLimit {
  /** At most so many in this call. */
  readonly max?: number | undefined;
  /** At most so many running at once; needs tasks that were recorded with `slots`. */
  readonly running?: number | undefined;
  /** At most so many starts per `perMs`. */
  readonly rate?: { readonly limit: number; readonly perMs: number } | undefined;
}

export interface DueOptions {
  readonly max: number;
  readonly leaseMs: number;
  readonly worker: string;
  readonly after?: string | null | undefined;
  readonly limits?: Readonly<Record<string, LaneLimit>> | undefined;
}

export interface LedgerStats {
  readonly unfinished: readonly {
    readonly scope: string;
    readonly due: number;
    readonly later: number;
    readonly running: number;
    readonly oldest_due_ms: number | null;
    readonly oldest_running_ms: number | null;
  }[];
  readonly parked: readonly { readonly scope: string; readonly state: string; readonly count: number }[];
}
