import { once } from "node:events";
import { createServer } from "node:http";
import { nodeHandler } from "../../../src/receive/node.ts";
import { adapterSuite, listen } from "./suite.ts";

adapterSuite({
  name: "node:http",
  advice: /before anything reads it/,
  start: (receiver) => {
    const handle = nodeHandler(receiver);
    return listen(
      createServer(async (req, res) => {
        if (req.url === "/parsed") await once(req.resume(), "end");
        handle(req, res);
      }),
    );
  },
});
