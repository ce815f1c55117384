// Webhooks: work/TRIGGERS.md, TR30 to TR32.

import { createHmac } from "node:crypto";
import { createRuntime, definePlugin, MarlingError, type Runtime } from "marling";
import { type WebhookOptions, type WebhookRequest, webhook } from "marling/plugins";
import { ManualClock, say, scriptedModel } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";

const NOW = Date.UTC(2026, 5, 1, 12);
const SECRET = "a secret";
const clock = new ManualClock({ startsAt: NOW });

const shop = definePlugin({
  id: "shop",
  build: () => ({
    triggers: [
      {
        resourceType: "shop",
        alias: "order",
        event: "paid",
        payloadSchema: { type: "object", required: ["id"], properties: { id: { type: "number" } } },
      },
    ],
  }),
});

async function shopRuntime(): Promise<Runtime> {
  const runtime = createRuntime({ model: scriptedModel(() => say("thanks")), plugins: [shop()], clock });
  onTestFinished(() => runtime.close());
  await runtime.session("s");
  await runtime.triggers.subscribe({ sessionId: "s", source: "order.paid" });
  return runtime;
}

async function hook(options: Partial<WebhookOptions> = {}) {
  const runtime = await shopRuntime();
  const answer = webhook({ triggers: runtime.triggers, source: "order.paid", clock, ...options });
  const send = async (body: WebhookRequest["body"], headers: WebhookRequest["headers"] = {}) => {
    const response = await answer({ headers, body });
    return { status: response.status, body: JSON.parse(response.body) as Record<string, unknown> };
  };
  return { runtime, send };
}

const hmac = (text: string | Uint8Array, secret = SECRET): string =>
  createHmac("sha256", secret).update(text).digest("hex");

describe("accepting", () => {
  test("[TR30] a request is 202 when its occurrence is stored, and 200 when it comes again", async () => {
    const { send } = await hook();
    const first = await send('{"id":1}');
    expect(first).toMatchObject({ status: 202, body: { status: "accepted" } });
    expect(await send('{"id":1}')).toEqual({ status: 200, body: { ...first.body, status: "duplicate" } });
    expect((await send('{"id":2}')).status).toBe(202);
    expect((await send(new TextEncoder().encode('{"id":2}'))).status).toBe(200);
  });

  test("[TR30] nothing is answered before the occurrence is stored, and a failure to store is no success", async () => {
    const failing = {
      emit: () => Promise.reject(new MarlingError("io_failed", "disk of /var/secret is full")),
    };
    const { send } = await hook({ triggers: failing });
    const { status, body } = await send('{"id":1}');
    expect(status).toBe(500);
    expect(JSON.stringify(body)).not.toContain("secret");
  });

  test("[TR30] a header or a function tells requests apart; another payload under a key is 409", async () => {
    const { send } = await hook({ key: "X-Delivery" });
    expect((await send('{"id":1}', { "x-delivery": "d1" })).status).toBe(202);
    expect((await send('{"id":1}', { "X-DELIVERY": ["d1", "d2"] })).status).toBe(200);
    expect((await send('{"id":2}', { "x-delivery": "d1" })).status).toBe(409);
    expect((await send('{"id":1}')).status).toBe(400);
    const byId = await hook({ key: (_request, payload) => `order-${(payload as { id: number }).id}` });
    expect((await byId.send('{"id":1}')).status).toBe(202);
    expect((await byId.send('{"id":1} ')).status).toBe(200);
  });

  test("[TR30] payload and topic are taken from the request", async () => {
    const { runtime, send } = await hook({
      payload: (body) => (body as { order: unknown }).order,
      topic: ({ headers }) => String(headers["x-shop"]),
    });
    const session = await runtime.session("s");
    await send('{"order":{"id":7}}', { "x-shop": "north" });
    await runtime.recover();
    const [message] = session.read().messages;
    expect(JSON.stringify(message)).toContain('\\"topic\\": \\"north\\"');
    expect(JSON.stringify(message)).toContain('\\"id\\": 7');
  });
});

describe("refusing", () => {
  test("[TR32] what is too large is 413, what cannot be read or was not declared is 400", async () => {
    const { send } = await hook({ maxBytes: 10 });
    expect((await send('{"id":1234}')).status).toBe(413);
    expect((await send('{"id":123}')).status).toBe(202);
    expect((await send("{")).status).toBe(400);
    expect((await send('{"di":1}')).status).toBe(400);
    expect((await send("")).status).toBe(400);
    expect((await send(Uint8Array.of(0x22, 0xff, 0x22))).status).toBe(400);
  });

  test("[TR31] a request without the right signature is 401 and occurs nowhere", async () => {
    const { runtime, send } = await hook({ verify: { secret: SECRET, header: "x-signature-256" } });
    const body = '{"id":1}';
    const refused = [
      {},
      { "x-signature-256": "" },
      { "x-signature-256": hmac(body, "another") },
      { "x-signature-256": hmac('{"id":2}') },
      { "x-signature-256": hmac(body).slice(0, 63) },
      { "x-signature-256": `sha256=${hmac(body).replace(/^./, "z")}` },
    ];
    for (const headers of refused) expect((await send(body, headers)).status).toBe(401);
    expect((await send(body, { "X-Signature-256": `sha256=${hmac(body)}` })).status).toBe(202);
    expect((await send(body, { "x-signature-256": hmac(body) })).status).toBe(200);
    await runtime.recover();
    expect((await runtime.session("s")).read().messages).toHaveLength(2);
  });

  test("[TR31] the signature is over the bytes as they came", async () => {
    const { send } = await hook({ verify: { secret: [SECRET], header: "sig" } });
    const bytes = new TextEncoder().encode('{ "id": 1, "name": "\u00e9" }');
    expect((await send(bytes, { sig: hmac(bytes) })).status).toBe(202);
    expect((await send(bytes, { sig: hmac('{"id":1,"name":"\u00e9"}') })).status).toBe(401);
  });

  test("[TR31] either of two secrets is enough while they are changed", async () => {
    const { send } = await hook({ verify: { secret: ["new", "old"], header: "sig" } });
    const body = '{"id":1}';
    expect((await send(body, { sig: hmac(body, "old") })).status).toBe(202);
    expect((await send(body, { sig: hmac(body, "new") })).status).toBe(200);
    expect((await send(body, { sig: hmac(body, "older") })).status).toBe(401);
  });

  test.each([
    ["a header of its own", "x-time", (time: string, sig: string) => ({ "x-time": time, sig: `v1=${sig}` })],
    ["the header of the signature", "sig", (time: string, sig: string) => ({ sig: `t=${time},v1=${sig}` })],
  ])(
    "[TR31] a time in %s is signed with the body and must be near",
    async (_where, timestampHeader, headers) => {
      const verify = { secret: SECRET, header: "sig", timestampHeader, toleranceMs: 60_000 };
      const { send } = await hook({ verify });
      const body = '{"id":1}';
      const at = (seconds: number) => {
        const time = String(NOW / 1000 + seconds);
        return headers(time, hmac(`${time}.${body}`));
      };
      for (const seconds of [-61, 61, -86_400]) expect((await send(body, at(seconds))).status).toBe(401);
      expect((await send(body, headers(String(NOW / 1000), hmac(body)))).status).toBe(401);
      expect((await send(body, headers("soon", hmac(`soon.${body}`)))).status).toBe(401);
      expect((await send(body, { sig: hmac(body) })).status).toBe(401);
      expect((await send(body, at(-60))).status).toBe(202);
      expect((await send(body, at(60))).status).toBe(200);
    },
  );

  test.each([[""], [[]], [["a", ""]]])(
    "[TR31] the secret %j is refused where it is given",
    async (secret) => {
      const { triggers } = await shopRuntime();
      expect(() => webhook({ triggers, source: "order.paid", verify: { secret, header: "sig" } })).toThrow(
        expect.objectContaining({ code: "invalid_options" }),
      );
    },
  );
});
