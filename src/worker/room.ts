/** Places for a bounded number of callers; the others wait in line, for so long. */
export class Room {
  #free: number;
  readonly #line: (() => void)[] = [];

  constructor(places: number) {
    this.#free = places;
  }

  /** Takes a place if one is free. */
  enter(): boolean {
    if (this.#free === 0) return false;
    this.#free--;
    return true;
  }

  /** Takes a place as soon as one is free; false where that takes longer than `ms`. Left out: however long it takes. */
  enterWithin(ms?: number): Promise<boolean> {
    if (this.enter()) return Promise.resolve(true);
    if (ms === undefined) return new Promise((resolve) => this.#line.push(() => resolve(true)));
    if (ms <= 0) return Promise.resolve(false);
    return new Promise((resolve) => {
      const called = (): void => {
        clearTimeout(timer);
        resolve(true);
      };
      const timer = setTimeout(() => {
        this.#line.splice(this.#line.indexOf(called), 1);
        resolve(false);
      }, ms);
      this.#line.push(called);
    });
  }

  leave(): void {
    const next = this.#line.shift();
    if (next) next();
    else this.#free++;
  }
}
