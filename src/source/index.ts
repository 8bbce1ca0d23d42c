/*
 * Stripe has an entry of its own, `onceward/stripe`: its types are the SDK's, which only its users have.
 */
export { discord, type DiscordOptions } from "./discord.ts";
export { signed, type FieldReader, type SignedOptions } from "./generic.ts";
export { github, type GithubOptions } from "./github.ts";
export { shopify, type ShopifyOptions } from "./shopify.ts";
export { slack, type SlackOptions } from "./slack.ts";
export type { HeaderReader, Identity, ProtocolReply, Reply, SignedRequest, Source } from "./source.ts";
export { standardWebhooks, type StandardWebhooksOptions } from "./standard-webhooks.ts";
