// Models of the AI SDK as options of a runtime.

import { createRuntime, type RuntimeOptions } from "marling";
import { aiSdkModel } from "marling/ai-sdk";
import { scriptedModel } from "marling/testing";
import { expect, test } from "vitest";
import { bindModels } from "../../src/kernel/runtime-options.ts";
import { refusal } from "../base/refusal.ts";
import { fakeModel, STOP, text } from "./fake-model.ts";
import { call, responseOf } from "./port-calls.ts";

const model = fakeModel([...text("Hi."), STOP]);

test("[LA16] a model is taken directly, with settings, and under a name", () => {
  const models = bindModels({
    model,
    models: { wide: { model, contextWindow: 1_000, maxOutputTokens: 10 } },
  });
  expect([...models.values()].map(({ port, ...known }) => ({ id: port.id, ...known }))).toEqual([
    { id: "fake.chat/fake-1", name: "default", contextWindow: undefined, maxOutputTokens: undefined },
    { id: "fake.chat/fake-1", name: "wide", contextWindow: 1_000, maxOutputTokens: 10 },
  ]);
});

test("[LA16] a port has the limits it is given", () => {
  expect(aiSdkModel(model, { contextWindow: 5, maxOutputTokens: 2 })).toMatchObject({
    id: "fake.chat/fake-1",
    contextWindow: 5,
    maxOutputTokens: 2,
  });
});

test("[LA16] what a request says comes before the settings of the model", async () => {
  const made = bindModels({
    model: {
      model,
      parameters: { temperature: 1, topP: 0.5 },
      providerOptions: { fake: { a: 1, b: 1 } },
      headers: { x: "1", y: "1" },
    },
  }).get("default")?.port;
  if (made === undefined) throw new Error("expected a port");
  const before = model.calls.length;
  responseOf(
    await call(made, {
      parameters: { temperature: 0 },
      providerOptions: { fake: { b: 2 } },
      headers: { y: "2" },
    }),
  );
  expect(model.calls[before]).toMatchObject({
    temperature: 0,
    topP: 0.5,
    providerOptions: { fake: { a: 1, b: 2 } },
    headers: { x: "1", y: "2" },
  });
});

test("[LA16] settings hold for other ports as well", async () => {
  const scripted = scriptedModel([{ kind: "say", text: "Hi.", options: {} }]);
  const port = bindModels({ model: { model: scripted, parameters: { temperature: 1 } } }).get(
    "default",
  )?.port;
  if (port === undefined) throw new Error("expected a port");
  await call(port);
  expect(scripted.requests[0]?.parameters).toEqual({ temperature: 1 });
});

test.each([
  [
    "an older specification",
    { ...model, specificationVersion: "v2" },
    "found a model of the AI SDK's specification v2",
  ],
  ["the id of a model", "anthropic/claude", 'found "anthropic/claude"'],
  [
    "a model without doStream",
    { ...model, doStream: undefined },
    "found a model of the AI SDK's specification v3",
  ],
])("[LA16] %s is refused by name", (_title, given, found) => {
  const error = refusal(() => createRuntime({ model: given } as unknown as RuntimeOptions));
  expect(error.code).toBe("invalid_options");
  expect(error.message).toBe(
    `option model: expected a model of the AI SDK (specification v3 or v4) or a model port, or { model, contextWindow?, maxOutputTokens? }, ${found}`,
  );
});
