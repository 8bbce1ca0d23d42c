/** For your tests: proves that your handlers take effect once, whatever goes wrong around them. */
export { proveHandler, type Proof, type ProveOptions, type Trial } from "./prove.ts";
export type { Difference, Row } from "./snapshot.ts";
