import { createServer } from "node:http";
import express, { type Express } from "express";
import { expressHandler } from "../../../src/receive/express.ts";
import type { Receiver } from "../../../src/receive/delivery.ts";
import { maxBytes } from "./echo.ts";
import { adapterSuite, listen } from "./suite.ts";

/** What comes after the receiver's own route: the app's JSON, and the mistake of mounting behind it. */
function rest(app: Express, receiver: Receiver) {
  app.use(express.json());
  app.post("/other", (req, res) => void res.json({ got: req.body.ping }));
  app.all("/parsed", expressHandler(receiver));
  return listen(createServer(app));
}

const advice = /mount this before express\.json\(\)/;

adapterSuite({
  name: "Express, before its parsers",
  advice,
  parsesJson: true,
  start: (receiver) => {
    const app = express();
    app.all("/hook", expressHandler(receiver));
    return rest(app, receiver);
  },
});

adapterSuite({
  name: "Express, behind express.raw()",
  advice,
  parsesJson: true,
  decompresses: true,
  readsFirst: true,
  start: (receiver) => {
    const app = express();
    const raw = express.raw({ type: () => true, limit: maxBytes * 4 });
    app.all("/hook", raw, expressHandler(receiver));
    return rest(app, receiver);
  },
});

adapterSuite({
  name: "Express, behind a parser that keeps req.rawBody",
  advice,
  parsesJson: true,
  decompresses: true,
  readsFirst: true,
  start: (receiver) => {
    const app = express();
    const verify = (req: object, _res: unknown, buffer: Buffer) =>
      void Object.assign(req, { rawBody: buffer });
    const text = express.text({ type: () => true, limit: maxBytes * 4, verify, defaultCharset: "latin1" });
    app.all("/hook", text, expressHandler(receiver));
    return rest(app, receiver);
  },
});

adapterSuite({
  name: "Express 4, where a parser that skipped the body leaves an empty object",
  advice,
  parsesJson: true,
  start: (receiver) => {
    const app = express();
    app.all("/hook", (req, _res, next) => {
      req.body = {};
      next();
    });
    app.all("/hook", expressHandler(receiver));
    return rest(app, receiver);
  },
});
