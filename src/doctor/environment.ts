/** Secrets and keys in the environment: found by their names and forms, never shown. */
import { type Finding, Findings } from "./finding.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const expected = new Set(["STRIPE_WEBHOOK_SECRET", "STRIPE_SECRET_KEY", "STRIPE_API_KEY", "DATABASE_URL"]);
const looksLikeSecret = /^\s*["']?(whsec_|[sr]k_(live|test)_|postgres(ql)?:\/\/)/;
/** As documentation and templates write them. */
const placeholder =
  /^(whsec_|[sr]k_(live|test)_)?[.…*x-]*$|your[_-]|change[_-]?me|placeholder|replace[_-]?me|<[^>]*>|\bTODO\b/i;
/** Shorter than any that Stripe makes (whsec_ and 32 characters). */
const shortestSecret = 24;

export function judgeEnvironment(env: Environment): Finding[] {
  const about = new Findings("secrets");
  const production = env["NODE_ENV"] === "production";
  const modes = new Map<"live" | "test", string[]>();
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || !(expected.has(name) || looksLikeSecret.test(value))) continue;
    judgeForm(about, name, value);
    const mode = /[sr]k_(live|test)_/.exec(value)?.[1] as "live" | "test" | undefined;
    if (mode) modes.set(mode, [...(modes.get(mode) ?? []), name]);
  }
  const [live = [], test = []] = [modes.get("live"), modes.get("test")];
  if (live.length > 0 && test.length > 0)
    about.wrong(
      "modes_mixed",
      `Live and test keys are set together: ${live.join(", ")} are live, ${test.join(", ")} are test.`,
      "Use keys of one mode in one environment: a live event handled with a test key finds no object, and the other way round.",
    );
  else if (production && test.length > 0)
    about.wrong(
      "test_in_production",
      `NODE_ENV is production, and ${test.join(", ")} are test keys.`,
      "Set the live keys here.",
    );
  else if (!production && live.length > 0)
    about.advice(
      "live_in_development",
      `${live.join(", ")} are live keys, and NODE_ENV is not production.`,
      "Use test keys while you develop: replays and storms would act on real customers.",
    );
  if (production && (env["STRIPE_WEBHOOK_SECRET"] ?? "") === "" && env["DATABASE_URL"] === undefined)
    about.advice(
      "production_unset",
      "NODE_ENV is production, and neither STRIPE_WEBHOOK_SECRET nor DATABASE_URL is set.",
      "Set them where this process starts, if the configuration reads them.",
    );
  return about.all;
}

function judgeForm(about: Findings, name: string, value: string): void {
  // Several may stand together, while one is being rolled.
  const parts = name === "DATABASE_URL" ? [value] : value.split(",");
  for (const part of parts) {
    const todo = `Set ${name} again, from where it is shown.`;
    if (part.trim() === "") about.wrong("secret_empty", `${name} is empty.`, todo);
    else if (part.trim() !== part)
      about.wrong(
        "secret_whitespace",
        `${name} begins or ends with whitespace, often a pasted newline.`,
        todo,
      );
    else if (/^["'].*["']$/s.test(part)) about.wrong("secret_quoted", `${name} has quotes around it.`, todo);
    else if (placeholder.test(part))
      about.wrong("secret_placeholder", `${name} is a placeholder, not a real value.`, todo);
    else if (/^(whsec_|[sr]k_)/.test(part) && part.length < shortestSecret)
      about.wrong("secret_short", `${name} is too short to be a real secret.`, todo);
    if (name.includes("WEBHOOK") && /^[srp]k_/.test(part.trim()))
      about.wrong("secret_mistaken", `${name} is an API key, which signs nothing.`, todo);
  }
}
