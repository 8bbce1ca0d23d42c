import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { asDatabaseError, asDatabaseErrorOfWork, sqlStateOf } from "../../src/database/failure.ts";
import { OncewardError } from "../../src/errors.ts";

const coded = (code: string, message = "from a driver"): Error => Object.assign(new Error(message), { code });
const prisma = (cause: object, code = "P2010"): Error =>
  Object.assign(coded(code), { meta: { driverAdapterError: { name: "DriverAdapterError", cause } } });

describe("an error of a driver", () => {
  it.each([
    ["a refused connection", coded("ECONNREFUSED"), "database_unavailable"],
    ["a reset connection", coded("ECONNRESET"), "database_unavailable"],
    [
      "every address of a host refused",
      new AggregateError([coded("ECONNREFUSED"), coded("ECONNREFUSED")]),
      "database_unavailable",
    ],
    ["a shutdown", coded("57P01"), "database_unavailable"],
    ["a server that starts up", coded("57P03"), "database_unavailable"],
    ["any connection exception", coded("08006"), "database_unavailable"],
    ["too many connections", coded("53300"), "database_unavailable"],
    ["a full disk", coded("53100"), "database_unavailable"],
    ["a standby that takes no writes", coded("25006"), "database_unavailable"],
    ["pg's cut connection", new Error("Connection terminated unexpectedly"), "database_unavailable"],
    [
      "pg's pool that was ended",
      new Error("Cannot use a pool after calling end on the pool"),
      "database_unavailable",
    ],
    ["postgres.js' closed connection", coded("CONNECTION_CLOSED"), "database_unavailable"],
    ["Drizzle around it", new Error("Failed query", { cause: coded("57P01") }), "database_unavailable"],
    ["Prisma around it", prisma({ originalCode: "57P01", kind: "postgres" }), "database_unavailable"],
    ["Prisma without a code", prisma({ kind: "ConnectionClosed" }), "database_unavailable"],
    ["Prisma's own", coded("P1001"), "database_unavailable"],
    ["pg's timeout of the pool", new Error("timeout exceeded when trying to connect"), "pool_exhausted"],
    ["Prisma's timeout of the pool", coded("P2024"), "pool_exhausted"],
    ["an aborted transaction", coded("25P02"), "transaction_aborted"],
    ["Drizzle around that", new Error("Failed query", { cause: coded("25P02") }), "transaction_aborted"],
  ])("such as %s is told apart", (_, error, code) => {
    const told = asDatabaseError(error);
    expect(told).toBeInstanceOf(OncewardError);
    expect(told).toMatchObject({ code, cause: error });
  });

  it.each([
    ["a unique violation", coded("23505")],
    ["a wrong password", coded("28P01")],
    ["a database that is not there", coded("3D000")],
    ["a deadlock", coded("40P01")],
    ["a plain error", new Error("something else")],
    ["one of ours", new OncewardError("claim_lost", "lost")],
    ["a text", "Connection terminated"],
    ["nothing", undefined],
  ])("such as %s is passed on as it is", (_, error) => {
    expect(asDatabaseError(error)).toBe(error);
  });

  it("is passed on when it came from the work and may be of another service", () => {
    const refused = Object.assign(new TypeError("fetch failed"), { cause: coded("ECONNREFUSED") });
    expect(asDatabaseErrorOfWork(refused)).toBe(refused);
    expect(asDatabaseErrorOfWork(coded("57P01"))).toMatchObject({ code: "database_unavailable" });
  });

  it("never makes it throw, whatever was thrown", () => {
    const hostile = {
      get code(): string {
        throw new Error("a getter that throws");
      },
    };
    const circular: { cause?: unknown; code?: unknown } = { code: 5 };
    circular.cause = circular;
    fc.assert(
      fc.property(fc.oneof(fc.anything(), fc.constantFrom(hostile, circular)), (anything) => {
        expect(asDatabaseError(anything)).toBe(anything);
        expect(sqlStateOf(anything)).toBeUndefined();
      }),
    );
  });
});

describe("a SQLSTATE", () => {
  it.each([
    ["pg", coded("42P01"), "42P01"],
    ["Drizzle", new Error("Failed query", { cause: coded("42P01") }), "42P01"],
    ["Prisma", prisma({ originalCode: "42P01", kind: "TableDoesNotExist" }), "42P01"],
    ["PL/pgSQL", coded("P0001"), "P0001"],
  ])("is found in an error of %s", (_, error, state) => {
    expect(sqlStateOf(error)).toBe(state);
  });

  it.each(["EPIPE", "P1001", "P2024", "ECONNREFUSED", "CONNECTION_CLOSED", ""])("is not %j", (code) => {
    expect(sqlStateOf(coded(code))).toBeUndefined();
  });
});
