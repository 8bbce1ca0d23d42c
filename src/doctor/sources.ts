/** Sources that could verify no delivery yet. */
import { messageOf } from "../errors.ts";
import { type Finding, Findings } from "./finding.ts";

export function judgeSources(sources: Iterable<{ check(): void }>): Finding[] {
  const about = new Findings("secrets");
  for (const source of sources) {
    try {
      source.check();
    } catch (error) {
      about.wrong("secret_missing", messageOf(error), "Set it where the process starts that receives.");
    }
  }
  return about.all;
}
