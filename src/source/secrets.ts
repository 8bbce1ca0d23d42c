import { OncewardError } from "../errors.ts";

/**
 * One, or several at once: while a secret is rolled, or for an account's and a Connect endpoint on one URL. `{ env }`
 * names a variable of the environment, which is read when it is first needed: code that receives nothing, such as a build
 * or a migration, can do without.
 */
export type Secrets = Secret | readonly Secret[];
export type Secret = string | { readonly env: string };

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

/**
 * What a source makes of its secrets to verify with. Refuses what could never verify: at start, or, where some are in the
 * environment, whenever it is asked for until they are there. It never shows a secret.
 */
export function secretKeys<Keys>(
  source: string,
  secrets: Secrets,
  rules: SecretRules,
  make: (list: string[]) => Keys,
): () => Keys {
  let keys: Keys | undefined;
  const made = (): Keys => (keys ??= make(secretList(source, secrets, rules)));
  const later = (Array.isArray(secrets) ? secrets : [secrets]).some(isInEnvironment);
  if (!later) made();
  return made;
}

/** As a list without repetitions. */
function secretList(source: string, secrets: Secrets, rules: SecretRules): string[] {
  const option = rules.option ?? "secrets";
  const list: readonly unknown[] = Array.isArray(secrets) ? secrets : [secrets];
  if (list.length === 0) throw invalid(source, `${option} is empty`, rules.where);
  const checked = list.map((given, index) => {
    const variable = isInEnvironment(given) ? given.env : undefined;
    const secret = variable === undefined ? given : process.env[variable];
    const label = variable ?? (Array.isArray(secrets) ? `${option}[${index}]` : option);
    const missing =
      variable === undefined
        ? "is missing: is the environment variable set?"
        : "is not set in the environment";
    const problem = typeof secret === "string" && secret !== "" ? problemOf(secret, rules) : missing;
    if (problem !== undefined) throw invalid(source, `${label} ${problem}`, rules.where);
    return secret as string;
  });
  return [...new Set(checked)];
}

function isInEnvironment(secret: unknown): secret is { readonly env: string } {
  return typeof secret === "object" && secret !== null && "env" in secret && typeof secret.env === "string";
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
