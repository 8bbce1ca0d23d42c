/**
 * Calls what somebody gave us to be told with, such as a log. What it throws must not become the problem of whoever tells
 * it; and what its promise rejects with would end the process, since nobody waits for that. Both go to `failed`.
 */
export function quietly(tell: () => unknown, failed: (error: unknown) => void = ignore): void {
  try {
    const told = tell();
    if (typeof told === "object" && told !== null) Promise.resolve(told).catch(failed);
  } catch (error) {
    failed(error);
  }
}

function ignore(): void {}
