import { plain } from "../terminal.ts";

/** What a command says: one JSON document on standard output with --json, else text and tables for people. */
export class Output {
  readonly json: boolean;

  constructor(options: { readonly json?: boolean | undefined } = {}) {
    this.json = options.json === true;
  }

  /** The answer of the command, once: as data for programs, or as lines for people. */
  answer(data: unknown, lines: () => string | readonly string[]): void {
    const text = this.json ? JSON.stringify(data, null, 2) : [lines()].flat().join("\n");
    if (text !== "") process.stdout.write(`${text}\n`);
  }

  /** A remark beside the answer; on standard error, so that it is never in the way of a program. */
  note(text: string): void {
    process.stderr.write(`${plain(text)}\n`);
  }
}

type Cell = string | number | null | undefined;

/** Columns of equal width, numbers to the right. No rows: no lines. */
export function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string[] {
  if (rows.length === 0) return [];
  const cells = rows.map((row) => head.map((_, i) => plain(row[i] === null ? "" : String(row[i] ?? ""))));
  const numeric = head.map((_, i) => rows.every((row) => typeof row[i] === "number" || row[i] == null));
  const widths = head.map((name, i) => Math.max(name.length, ...cells.map((row) => row[i]!.length)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, i) => (numeric[i] ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join("  ")
      .trimEnd();
  return [line(head), ...cells.map(line)];
}

/** A time as people read it at three in the morning: in UTC, to the second. */
export function time(at: string | null | undefined): string {
  if (at == null) return "";
  const date = new Date(at);
  return Number.isNaN(date.getTime())
    ? at
    : date
        .toISOString()
        .replace("T", " ")
        .replace(/\.\d+Z$/, "Z");
}

/** A span in its two largest units: "3 d 4 h", "12 min 5 s", "80 ms". */
export function span(ms: number | null | undefined): string {
  if (ms == null) return "";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const units = [
    ["d", 86_400_000],
    ["h", 3_600_000],
    ["min", 60_000],
    ["s", 1_000],
  ] as const;
  const first = units.findIndex(([, size]) => ms >= size);
  let rest = ms;
  return units
    .slice(first, first + 2)
    .map(([name, size]) => {
      const n = Math.floor(rest / size);
      rest -= n * size;
      return n > 0 ? `${n} ${name}` : "";
    })
    .filter(Boolean)
    .join(" ");
}
