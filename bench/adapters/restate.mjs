// Restate: the loop of `raw` as a virtual object per session, every model call and every tool call a `ctx.run`, the
// conversation its state.

import * as restate from "@restatedev/restate-sdk";
import * as clients from "@restatedev/restate-sdk-clients";
import { callModel, runCall, systemMessage } from "./raw.mjs";

export const about = {
  name: "restate",
  package: "@restatedev/restate-server",
  keeps: "restate",
  service: "restate",
  isLoop: true,
};

const here = { options: undefined, onDelta: new Map() };

const conversation = restate.object({
  name: "conversation",
  handlers: {
    turn: async (ctx, text) => {
      const messages = (await ctx.get("messages")) ?? [systemMessage];
      messages.push({ role: "user", content: text });
      for (;;) {
        const ask = () => callModel(here.options, messages, here.onDelta.get(ctx.key));
        const message = await ctx.run("model", ask);
        messages.push(message);
        if (message.tool_calls === undefined) break;
        const runs = message.tool_calls.map((call) => ctx.run("tool", () => runCall(call)));
        messages.push(...(await restate.RestatePromise.all(runs)));
      }
      ctx.set("messages", messages);
      return messages.at(-1).content;
    },
  },
});

export async function connect(options) {
  here.options = options;
  const { endpoint, admin, ingress } = options.service;
  await restate.serve({ services: [conversation], port: endpoint });
  const registered = await fetch(`${admin}/deployments`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ uri: `http://127.0.0.1:${endpoint}` }),
  });
  if (!registered.ok) throw new Error(await registered.text());
  const client = clients.connect({ url: ingress });
  const call = (id, text) => {
    const idempotencyKey = text.slice(2, text.indexOf("}}")).replace("/", "-");
    return client.objectClient(conversation, id).turn(text, clients.rpc.opts({ idempotencyKey }));
  };
  return {
    open: async (id) => id,
    reopen: async (id) => id,
    turn(id, text, onDelta) {
      here.onDelta.set(id, onDelta);
      return call(id, text);
    },
    resume: call, // The server goes on by itself; the same key joins the invocation.
    close: async () => {},
  };
}
