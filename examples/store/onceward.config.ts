// `npm start` serves this: a shop for digital goods and subscriptions, in a few short files.
// Each file is one promise: what was paid is delivered once, access follows the subscription, and so on.
import { defineConfig } from "onceward";
import "./access.ts";
import "./credits.ts";
import "./drip.ts";
import "./dunning.ts";
import "./orders.ts";
import { effects } from "./effects.ts";
import { once } from "./once.ts";
import { createTables } from "./tables.ts";

export default defineConfig({ once, setup: createTables, effects });
