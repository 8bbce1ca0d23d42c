/**
 * Loaded before the application: its wall clock is wrong by hours where FAULTS_CLOCK is set, and jumps on
 * SIGUSR2. The steady clock (performance.now, timers) stays right, as it does on real machines.
 */
const seed = process.env.FAULTS_CLOCK;

if (seed) {
  const hourMs = 3_600_000;
  let state = (Number(seed) * 7_919 + Number(process.env.FAULTS_START ?? 0) * 104_729 + process.pid) >>> 0;
  /** Up to twelve hours fast or slow. */
  const anyOffset = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.round((state / 2 ** 32 - 0.5) * 24 * hourMs);
  };
  let offset = anyOffset();
  const RealDate = Date;
  globalThis.Date = class Date extends RealDate {
    constructor(...args) {
      if (args.length === 0) super(RealDate.now() + offset);
      else super(...args);
    }
    static now() {
      return RealDate.now() + offset;
    }
  };
  process.on("SIGUSR2", () => (offset = anyOffset()));
}
