// Express: mounted before express.json(), which would take the signed bytes away.
import express from "express";
import { expressHandler } from "onceward/express";
import { billing, once } from "./billing.ts";

const app = express();
app.post("/webhooks/stripe", expressHandler(billing));
app.use(express.json());
app.post("/echo", (request, response) => void response.json(request.body));

await once.start();
export const server = app.listen(Number(process.env["PORT"] ?? 3000), "127.0.0.1");
