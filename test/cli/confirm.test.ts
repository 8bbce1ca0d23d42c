import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { confirm } from "../../src/cli/confirm.ts";
import { Interrupted, reportFailure } from "../../src/cli/fail.ts";

const question = vi.hoisted(() => vi.fn<() => Promise<string>>());
vi.mock("node:readline/promises", () => ({ createInterface: () => ({ question, close: () => undefined }) }));

const terminals = [process.stdin, process.stderr].map((stream) => ({ stream, isTTY: stream.isTTY }));
beforeEach(() => terminals.forEach(({ stream }) => void (stream.isTTY = true)));
afterEach(() => {
  terminals.forEach(({ stream, isTTY }) => void (stream.isTTY = isTTY));
  process.exitCode = undefined;
  vi.restoreAllMocks();
});

it("goes on after a yes, and changes nothing after anything else", async () => {
  question.mockResolvedValueOnce("y").mockResolvedValueOnce("");
  await confirm("All of it.", {});
  await expect(confirm("All of it.", {})).rejects.toThrow("Nothing was changed.");
});

it("ends quietly with 130 after Ctrl-C", async () => {
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const said = vi.spyOn(console, "error");
  // As Node's own does.
  question.mockRejectedValueOnce(Object.assign(new Error("Aborted with Ctrl+C"), { code: "ABORT_ERR" }));
  const thrown: unknown = await confirm("All of it.", {}).catch((error: unknown) => error);
  expect(thrown).toBeInstanceOf(Interrupted);
  reportFailure(thrown, false);
  expect(process.exitCode).toBe(130);
  expect(said).not.toHaveBeenCalled();
});
