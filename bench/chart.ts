/** docs/benchmarks.svg: one panel a section, one bar a variant, longest first. */
import { ours } from "./plan.ts";
import { summarise, type Results, type SectionResult } from "./results.ts";
import { variants, type VariantName } from "./variants/index.ts";

const WIDTH = 860;
const LABELS = 300;
const BARS = WIDTH - LABELS - 90;
const ROW = 22;
const HEAD = 44;

const shown = ["receive-64", "jobs", "drain", "latency", "handle", "steps"];

const style = `
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600 }
  .value { fill: #57606a }
  .peer { fill: #8c959f } .naive { fill: #c5cbd2 } .limit { fill: none; stroke: #8c959f; stroke-dasharray: 3 3 } .onceward { fill: #1f883d }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .value { fill: #9198a1 } .naive { fill: #4d555e } .onceward { fill: #3fb950 }
  }`;

export function chart(results: Results): string {
  const panels = shown.flatMap((id) => results.sections.find((one) => one.id === id) ?? []);
  let height = 10;
  const parts = panels.map((section) => {
    const { svg, rows } = panel(section, height);
    height += HEAD + rows * ROW;
    return svg;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height + 10}" role="img" aria-label="Events a second of every variant">
<style>${style}
</style>
${parts.join("\n")}
</svg>
`;
}

function panel(section: SectionResult, top: number): { svg: string; rows: number } {
  const slow = section.unit === "ms";
  const bars = section.variants.flatMap((name) => {
    const value = summarise(section, name)?.value;
    return value === undefined ? [] : [{ name, value }];
  });
  bars.sort((a, b) => (slow ? a.value - b.value : b.value - a.value));
  const longest = Math.max(...bars.map((bar) => bar.value));
  const rows = bars.map((bar, i) => row(bar, { y: top + HEAD - 8 + i * ROW, longest, slow }));
  const unit = slow ? "ms, shorter is better" : "events/s";
  return {
    svg: [
      `<text class="title" x="10" y="${top + 24}">${escaped(section.title)} (${unit})</text>`,
      ...rows,
    ].join("\n"),
    rows: bars.length,
  };
}

function row(
  { name, value }: { name: VariantName; value: number },
  at: { y: number; longest: number; slow: boolean },
): string {
  const { title, kind } = variants[name];
  const width = Math.max(1, (value / at.longest) * BARS);
  const said = at.slow ? value.toFixed(1) : Math.round(value).toLocaleString("en");
  const weight = name === ours ? ' class="title"' : "";
  return (
    `<text${weight} x="${LABELS - 8}" y="${at.y + 12}" text-anchor="end">${escaped(title)}</text>` +
    `<rect class="${kind}" x="${LABELS}" y="${at.y}" width="${width.toFixed(1)}" height="${ROW - 7}" rx="2"/>` +
    `<text class="value" x="${(LABELS + width + 6).toFixed(1)}" y="${at.y + 12}">${said}</text>`
  );
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
