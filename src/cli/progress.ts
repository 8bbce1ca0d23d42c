/** A bar on a terminal, a line every tenth elsewhere. */
export class Progress {
  readonly #total: number;
  readonly #terminal = process.stderr.isTTY;
  #shown = -1;

  constructor(total: number) {
    this.#total = Math.max(1, total);
  }

  show(done: number, note = ""): void {
    const part = Math.min(1, done / this.#total);
    if (this.#terminal) {
      const filled = Math.round(part * 30);
      const bar = "█".repeat(filled) + "░".repeat(30 - filled);
      process.stderr.write(`\r${bar} ${done}/${this.#total} ${note}\u001B[K`);
      return;
    }
    const tenth = Math.floor(part * 10);
    if (tenth === this.#shown) return;
    this.#shown = tenth;
    process.stderr.write(`${tenth * 10}% ${note}\n`);
  }

  note(text: string): void {
    if (this.#terminal) process.stderr.write(`\r${text}\u001B[K`);
  }

  end(): void {
    if (this.#terminal) process.stderr.write("\r\u001B[K");
  }
}
