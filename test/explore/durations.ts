/** How long things take in a schedule, in milliseconds of its own time. */

/** The lease that workloads give their processes, and a pause and a call that outlast it. */
export const leaseMs = 60_000;
export const pauseMs = 90_000;
export const slowMs = 150_000;

/** A process that died is started again after so long. */
export const restartMs = 5_000;

/** When all is done, what was started is given so long to say its last word: longer than the ledger is tried again. */
export const graceMs = 15_000;

/** After the last fault all comes to rest: lease, poll, the longest pause or answer, and backoffs, with room to spare. */
export const longestRecoveryMs = 6 * 60_000;
