import type { Story } from "../recover/story.ts";

/** A step in which a task waits: for a signal of this name, or for its time. */
export interface WaitingStep {
  readonly step: string;
  /** Of what is to be approved: a signal has to carry the same. */
  readonly fingerprint: string | null;
}

export function waitingSteps({ steps }: Pick<Story, "steps">): WaitingStep[] {
  return steps
    .filter(({ state }) => state === "waiting")
    .map(({ name, value }) => {
      // What is to be approved stands there too, and can hold personal data; its fingerprint cannot.
      const { fingerprint = null } = (JSON.parse(value ?? "{}") ?? {}) as { fingerprint?: string };
      return { step: name, fingerprint };
    });
}
