/** A bar on standard error where that is a terminal; nothing elsewhere. */
export class Progress {
  readonly #total: number;
  readonly #terminal = process.stderr.isTTY;

  constructor(total: number) {
    this.#total = Math.max(1, total);
  }

  show(done: number, note = ""): void {
    if (!this.#terminal) return;
    const filled = Math.round(Math.min(1, done / this.#total) * 30);
    const bar = "█".repeat(filled) + "░".repeat(30 - filled);
    process.stderr.write(`\r${bar} ${done}/${this.#total} ${note}\u001B[K`);
  }

  note(text: string): void {
    if (this.#terminal) process.stderr.write(`\r${text}\u001B[K`);
  }

  end(): void {
    if (this.#terminal) process.stderr.write("\r\u001B[K");
  }
}
