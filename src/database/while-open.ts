/** What happens to a transaction that somebody still holds after its end. */
import { OncewardError } from "../errors.ts";

/**
 * A transaction as it is, as long as there is no refusal: once it has ended its connection serves others, and a statement
 * of somebody who still holds it would be done, and kept.
 */
export function whileOpen<Tx>(tx: Tx, refusal: () => OncewardError | undefined): Tx {
  if ((typeof tx !== "object" && typeof tx !== "function") || tx === null) return tx;
  const check = (): void => {
    const error = refusal();
    if (error) throw error;
  };
  return new Proxy(tx, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      // By its class a library knows its own; and what is fixed must be shown as it is.
      const fixed = Reflect.getOwnPropertyDescriptor(target, name)?.configurable === false;
      if (typeof value !== "function" || name === "constructor" || fixed) return value;
      return (...args: unknown[]): unknown => {
        check();
        return Reflect.apply(value, target, args);
      };
    },
    apply(target, self, args) {
      check();
      return Reflect.apply(target as (...args: unknown[]) => unknown, self, args);
    },
  });
}

export function transactionEnded(): OncewardError {
  return new OncewardError(
    "transaction_ended",
    "This transaction has ended, and its connection serves others now, so that the statement was not sent. " +
      "Await everything that is done through `tx` before the function that got it returns.",
  );
}
