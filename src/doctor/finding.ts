/** What `onceward doctor` found: what it is, and what to do. Never a secret, a payload or a personal datum. */
export interface Finding {
  /** `wrong`: events can be lost, doubled or refused, or nothing runs. `advice`: better otherwise. */
  readonly level: "wrong" | "advice";
  /** What was looked at: `database`, `ledger`, `secrets`, … */
  readonly about: string;
  /** A stable name, for programs. */
  readonly code: string;
  readonly what: string;
  readonly todo: string;
}

type Said = Omit<Finding, "level" | "about">;

/** Collects the findings about one thing. */
export class Findings {
  readonly #about: string;
  readonly all: Finding[] = [];

  constructor(about: string) {
    this.#about = about;
  }

  wrong(code: string, what: string, todo: string): void {
    this.#add("wrong", { code, what, todo });
  }

  advice(code: string, what: string, todo: string): void {
    this.#add("advice", { code, what, todo });
  }

  #add(level: Finding["level"], said: Said): void {
    this.all.push({ level, about: this.#about, ...said });
  }
}
