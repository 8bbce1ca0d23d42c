import { OncewardError } from "../errors.ts";

/** One, or several at once: while a secret is rolled, or for an account's and a Connect endpoint on one URL. */
export type Secrets = string | readonly string[];

/** Prefixes of other credentials that get pasted by mistake, with their names. */
export type Mistaken = Readonly<Record<string, string>>;

export interface SecretRules {
  /** The option's name, for the message. */
  readonly option?: string;
  /** Where the right value is found. */
  readonly where: string;
  readonly mistaken?: Mistaken;
  /** Whether people make it up themselves, so that it may hold spaces and quotes. */
  readonly chosen?: boolean;
  /** What else is wrong with it, as the end of the sentence "secrets[0] …". */
  readonly diagnose?: (secret: string) => string | undefined;
}

/** The secrets as a list without repetitions. Refuses, at start, what could never verify; it never shows a secret. */
export function secretList(source: string, secrets: Secrets, rules: SecretRules): string[] {
  const option = rules.option ?? "secrets";
  const list: readonly unknown[] = Array.isArray(secrets) ? secrets : [secrets];
  if (list.length === 0) throw invalid(source, `${option} is empty`, rules.where);
  const checked = list.map((secret, index) => {
    const label = Array.isArray(secrets) ? `${option}[${index}]` : option;
    const problem =
      typeof secret === "string" && secret !== ""
        ? problemOf(secret, rules)
        : "is missing: is the environment variable set?";
    if (problem !== undefined) throw invalid(source, `${label} ${problem}`, rules.where);
    return secret as string;
  });
  return [...new Set(checked)];
}

function problemOf(
  secret: string,
  { mistaken = {}, chosen = false, diagnose }: SecretRules,
): string | undefined {
  if (secret.trim() !== secret) return "begins or ends with whitespace, often a pasted newline: remove it";
  if (!chosen && /\s/.test(secret)) return "has whitespace in it: paste it again";
  if (!chosen && /^["']|["']$/.test(secret)) return "has quotes around it: remove them";
  for (const [prefix, what] of Object.entries(mistaken)) {
    if (secret.startsWith(prefix)) return `is ${what}, which signs nothing (and should be kept out of here)`;
  }
  return diagnose?.(secret);
}

function invalid(source: string, problem: string, where: string): OncewardError {
  return new OncewardError(
    "config_invalid",
    `${source}: ${problem}${problem.endsWith("?") ? "" : "."} ${where}`,
  );
}

/** Names of sources are part of every scope, so they stay plain. */
export function sourceName(name: string): string {
  if (typeof name === "string" && /^[a-z][a-z0-9_-]{0,62}$/.test(name)) return name;
  throw new OncewardError(
    "config_invalid",
    "the name of a source must be 1 to 63 lower-case letters, digits, - or _, and begin with a letter",
  );
}
