import { type Fault, scene } from "../fault.ts";
import { type CutAt, Proxy } from "../proxy.ts";
import { Stage } from "../stage.ts";

/** Connections are reset at the two moments that matter: the client cannot tell one from the other. */
function cut(at: CutAt): Fault {
  return {
    name: `cut-${at}`,
    what:
      at === "before"
        ? "connections reset just before a commit reaches Postgres"
        : "connections reset after Postgres has committed, before its answer arrives",
    open: (options) =>
      scene(async (later) => {
        const url = await options.postgres.createDatabase();
        const proxy = await Proxy.start(options.postgres.port, options.random);
        later(() => proxy.close());
        const stage = await Stage.open({ ...options, url: proxy.through(url), direct: () => url });
        later(() => stage.close());
        return { stage, strike: () => proxy.cut(at, options.size.cuts) };
      }),
  };
}

export const cutBefore = cut("before");
export const cutAfter = cut("after");
