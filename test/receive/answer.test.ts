import { describe, expect, it } from "vitest";
import { errorTable, Fatal, OncewardError, type ErrorCode } from "../../src/errors.ts";
import { answer, answerOf } from "../../src/receive/answer.ts";

const codes = Object.keys(errorTable) as ErrorCode[];

describe("answerOf", () => {
  it.each(codes)("answers %s with its status and code", (code) => {
    const { status, headers, body } = answerOf(new OncewardError(code, "why"));
    expect(status).toBe(errorTable[code].status);
    expect(headers["content-type"]).toBe("application/json");
    expect(JSON.parse(body).error.code).toBe(code);
  });

  it("says why to senders, and to who mounts", () => {
    for (const code of codes) {
      const { message } = JSON.parse(answerOf(new OncewardError(code, "why")).body).error;
      expect([code, message]).toEqual([
        code,
        errorTable[code].status < 500 || code === "body_parsed" ? "why" : undefined,
      ]);
    }
  });

  it("says when to come back where coming back helps", () => {
    for (const code of codes) {
      const { status, retry } = errorTable[code];
      const expected =
        retry && (status === 409 || status === 503) ? expect.stringMatching(/^[1-9]\d*$/) : undefined;
      expect([code, answerOf(new OncewardError(code, "why")).headers["retry-after"]]).toEqual([
        code,
        expected,
      ]);
    }
  });

  it("names the method that is welcome", () => {
    expect(answerOf(new OncewardError("method_not_allowed", "only POST")).headers["allow"]).toBe("POST");
  });

  it.each([
    new Error("password=hunter2"),
    "hunter2",
    null,
    undefined,
    { code: "body_parsed", status: 200, message: "hunter2" },
  ])("tells nothing of what it does not know (%s)", (thrown) => {
    expect(answerOf(thrown)).toEqual({
      status: 500,
      headers: { "content-type": "application/json" },
      body: '{"error":{"code":"internal"}}',
    });
  });

  it("tells nothing of what a handler said", () => {
    const fatal = answerOf(
      new Fatal("customer a@example.com has no account", { cause: new Error("hunter2") }),
    );
    expect(fatal.body).toBe('{"error":{"code":"fatal"}}');
  });

  it("makes an answer once as long as the message stays the same", () => {
    const first = answerOf(new OncewardError("scope_invalid", "a"));
    expect(answerOf(new OncewardError("scope_invalid", "a"))).toBe(first);
    expect(JSON.parse(answerOf(new OncewardError("scope_invalid", "b")).body).error.message).toBe("b");
    expect(JSON.parse(answerOf(new OncewardError("scope_invalid", "a")).body).error.message).toBe("a");
  });
});

describe("answer", () => {
  it("is JSON, with headers of one's own", () => {
    expect(answer(200, { outcome: "done" })).toEqual({
      status: 200,
      headers: { "content-type": "application/json" },
      body: '{"outcome":"done"}',
    });
    expect(answer(202, {}, { "x-a": "1" }).headers).toEqual({
      "content-type": "application/json",
      "x-a": "1",
    });
  });
});
