import { existsSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Config } from "../config.ts";
import { messageOf, OncewardError } from "../errors.ts";
import type { Once } from "../once.ts";
import { Failure } from "./fail.ts";

const names = ["ts", "mts", "js", "mjs"].map((ending) => `onceward.config.${ending}`);

/** Finds `onceward.config.ts` in a folder, or takes a file, and reads its default export. */
export async function loadConfig(target = "."): Promise<{ config: Config; file: string }> {
  const file = findConfig(resolve(target));
  let loaded: unknown;
  try {
    loaded = await importConfig(file);
  } catch (error) {
    if (error instanceof OncewardError || error instanceof Failure) throw error;
    throw new Failure(`${file} could not be loaded: ${messageOf(error)}`, { cause: error });
  }
  return { config: asConfig(loaded, file), file };
}

function findConfig(path: string): string {
  if (!existsSync(path))
    throw new Failure(`${path} does not exist. Name a folder with an onceward.config.ts, or the file.`);
  if (!statSync(path).isDirectory()) return path;
  const found = configIn(path);
  if (!found)
    throw new Failure(
      `${path} holds no onceward.config.ts. Name its folder, or make one with \`onceward init\`.`,
    );
  return found;
}

/** The configuration in a folder, or undefined. */
export function configIn(folder: string): string | undefined {
  return names.map((name) => join(folder, name)).find((file) => existsSync(file));
}

async function importConfig(file: string): Promise<unknown> {
  const typescript = /\.m?ts$/.test(file);
  // From Node 22.18 on, TypeScript is read by Node itself.
  if (!typescript || (process.features as { typescript?: unknown }).typescript) {
    return ((await import(pathToFileURL(file).href)) as { default?: unknown }).default;
  }
  const jiti = await import("jiti").catch(() => {
    throw new OncewardError(
      "driver_missing",
      "On this Node a configuration in TypeScript needs the package jiti: run `npm install jiti`, or use Node 22.18 or newer.",
    );
  });
  return jiti.createJiti(file, { interopDefault: true }).import(file, { default: true });
}

/** A configuration, or just the object that createOnce returned. */
function asConfig(value: unknown, file: string): Config {
  if (isOnce(value)) return { once: value };
  if (typeof value === "object" && value !== null && isOnce((value as Config).once)) return value as Config;
  throw new Failure(
    `${file} exports no configuration: \`export default defineConfig({ once })\`, with once from createOnce().`,
  );
}

function isOnce(value: unknown): value is Once<never> {
  return typeof value === "object" && value !== null && "engine" in value && "sources" in value;
}
