/** Secrets that are read from the environment when they are first needed: the same for every source. */
import { afterEach, expect, it, vi } from "vitest";
import { discord, github, shopify, signed, slack, standardWebhooks } from "../../src/source/index.ts";
import type { Secrets } from "../../src/source/secrets.ts";
import type { Source } from "../../src/source/source.ts";
import { stripe } from "../../src/source/stripe.ts";
import { codeOf, refusalOf } from "./support.ts";

afterEach(() => vi.unstubAllEnvs());

const hex = "5ec".repeat(22).slice(0, 64);
const field = { id: () => "1", type: () => "a" };
const makers: [string, string, (secrets: Secrets) => Source][] = [
  ["stripe", `whsec_${hex}`, (secrets) => stripe({ secrets })],
  ["clerk", "whsec_c2VjcmV0c2VjcmV0c2VjcmV0", (secrets) => standardWebhooks({ name: "clerk", secrets })],
  ["github", "It's a Secret", (secrets) => github({ secrets })],
  ["discord", hex, (publicKeys) => discord({ publicKeys })],
  ["slack", hex, (secrets) => slack({ secrets })],
  ["shopify", hex, (secrets) => shopify({ secrets })],
  ["acme", hex, (secrets) => signed({ name: "acme", secrets, signature: { header: "x-acme" }, ...field })],
];

it.each(makers)("a secret of %s may be set after the source is made", (name, secret, make) => {
  const source = make({ env: "A_TEST_SECRET" });
  for (const value of [undefined, "", `${secret}\n`]) {
    vi.stubEnv("A_TEST_SECRET", value);
    const refusal = refusalOf(() => source.check?.());
    expect(refusal?.code).toBe("config_invalid");
    const problem = value ? "begins or ends with whitespace" : "is not set in the environment";
    expect(refusal?.message).toContain(`${name}: A_TEST_SECRET ${problem}`);
    expect(refusal?.message).not.toContain(secret);
  }
  vi.stubEnv("A_TEST_SECRET", secret);
  expect(codeOf(() => source.check?.())).toBe("accepted");
});
