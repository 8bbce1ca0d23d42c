export { discord, type DiscordOptions } from "./discord.ts";
export { signed, type FieldReader, type SignedOptions } from "./generic.ts";
export { github, type GithubOptions } from "./github.ts";
export { shopify, type ShopifyOptions } from "./shopify.ts";
export { slack, type SlackOptions } from "./slack.ts";
export type { HeaderReader, Identity, ProtocolReply, Reply, SignedRequest, Source } from "./source.ts";
export { standardWebhooks, type StandardWebhooksOptions } from "./standard-webhooks.ts";
export {
  stripe,
  type StripeClient,
  type StripeEvents,
  type StripeOptions,
  type StripeThinEvent,
} from "./stripe.ts";
