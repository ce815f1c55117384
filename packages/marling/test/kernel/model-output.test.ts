// Answers that follow a schema.

import { type } from "arktype";
import { defineTool, finishTurn, type MarlingError, type Schema } from "marling";
import { callTool, failWith, say, scriptedModel } from "marling/testing";
import * as v from "valibot";
import { describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { open } from "./model-support.ts";

const JSON_SCHEMA = {
  type: "object",
  properties: { city: { type: "string" }, people: { type: "integer" } },
  required: ["city", "people"],
} as const;

const SCHEMAS: Readonly<Record<string, Schema>> = {
  zod: z.object({ city: z.string(), people: z.number().int() }),
  valibot: v.object({ city: v.string(), people: v.pipe(v.number(), v.integer()) }),
  arktype: type({ city: "string", people: "number.integer" }),
  "JSON Schema": JSON_SCHEMA,
};

const ANSWER = { city: "Bern", people: 134_000 };

async function failure(promise: Promise<unknown>): Promise<MarlingError> {
  return promise.then(
    () => {
      throw new Error("expected a rejection");
    },
    (thrown: MarlingError) => thrown,
  );
}

describe.each(Object.entries(SCHEMAS))("with %s", (_name, output) => {
  test("the schema goes with the request, and the answer comes back as a value", async () => {
    const model = scriptedModel([say(JSON.stringify(ANSWER))]);
    const session = await open({ model });
    const { value, text, report } = await session.run("How big is Bern?", { output });
    expect(value).toEqual(ANSWER);
    expect(text).toBe('{"city":"Bern","people":134000}');
    expect(report.outcome.kind).toBe("finished");
    expect(model.requests[0]?.outputSchema).toMatchObject({
      type: "object",
      properties: { city: { type: "string" }, people: { type: "integer" } },
      required: expect.arrayContaining(["city", "people"]),
    });
  });

  test("an answer that does not follow it is an invalid_output with the path and what was found", async () => {
    const session = await open({ model: scriptedModel([say('{"city":"Bern","people":"many"}')]) });
    const { code, advice, message, details } = await failure(session.run("How big is Bern?", { output }));
    expect({ code, advice }).toEqual({ code: "invalid_output", advice: "fix" });
    expect(message).toContain("/people");
    expect(details).toMatchObject({ path: "/people", found: { city: "Bern", people: "many" } });
    // The turn itself is committed: what the model said is in the history.
    expect(session.read().messages).toHaveLength(2);
  });
});

test("the value has the type of the schema, transforms and defaults included", async () => {
  const output = z.object({
    city: z.string().transform((city) => city.length),
    country: z.string().default("CH"),
  });
  const session = await open({ model: scriptedModel([say('{"city":"Bern"}')]) });
  const { value } = await session.run("Which city?", { output });
  expectTypeOf(value).toEqualTypeOf<{ city: number; country: string }>();
  expect(value).toEqual({ city: 4, country: "CH" });
});

test.each([
  ["bare", '{"city":"Bern","people":1}'],
  ["with spaces", '\n  {"city":"Bern","people":1}\n'],
  ["in a fenced block", '```json\n{"city":"Bern","people":1}\n```'],
  ["in a fenced block among words", 'Here you are:\n\n```\n{"city":"Bern","people":1}\n```\nAnything else?'],
])("JSON is read as models write it: %s", async (_name, text) => {
  const session = await open({ model: scriptedModel([say(text)]) });
  expect((await session.run("Hi", { output: JSON_SCHEMA })).value).toEqual({ city: "Bern", people: 1 });
});

test("what is not JSON stays text, which a schema may take or refuse", async () => {
  const session = await open({ model: scriptedModel(() => say("Bern, of course")) });
  expect((await session.run("Hi", { output: z.string() })).value).toBe("Bern, of course");
  const { code, details } = await failure(session.run("Hi", { output: JSON_SCHEMA }));
  expect({ code, found: details.found }).toEqual({ code: "invalid_output", found: "Bern, of course" });
});

test("without a schema the value is what a tool finished the turn with, or nothing", async () => {
  const finish = defineTool({
    name: "finish",
    description: "Finishes.",
    input: z.object({}),
    execute: () => finishTurn({ done: true }),
  });
  const model = scriptedModel([callTool("finish"), say("just words"), callTool("finish")]);
  const session = await open({ model, tools: [finish] });
  const first = await session.run("Finish");
  expect(first.value).toEqual({ done: true });
  expect(first.report.outcome).toMatchObject({ kind: "finished", by: "tool" });
  expect((await session.run("Talk")).value).toBeUndefined();
  expect(model.requests[1]).not.toHaveProperty("outputSchema");
  expect((await session.run("Finish", { output: z.object({ done: z.boolean() }) })).value).toEqual({
    done: true,
  });
});

test("what a tool finished with is the value as it is, not what its text would be read as", async () => {
  const finish = defineTool({
    name: "finish",
    description: "Finishes.",
    input: z.object({}),
    execute: () => finishTurn("42"),
  });
  const session = await open({ model: scriptedModel([callTool("finish")]), tools: [finish] });
  expect((await session.run("Finish", { output: z.string() })).value).toBe("42");
});

test("a value of null is a value", async () => {
  const session = await open({ model: scriptedModel([say("null")]) });
  expect((await session.run("Hi", { output: z.null() })).value).toBeNull();
});

test("a turn that stopped is a turn_stopped with its reason and its report", async () => {
  const session = await open({ model: scriptedModel([failWith({ kind: "auth", message: "bad key" })]) });
  const { code, message, details } = await failure(session.run("Hi", { output: JSON_SCHEMA }));
  expect(code).toBe("turn_stopped");
  expect(message).toBe("turn s:turn:1 stopped: provider_error: bad key");
  expect(details.report).toMatchObject({
    turnId: "s:turn:1",
    outcome: { reason: "provider_error", code: "auth" },
  });
});

test("a schema that is none is refused before anything is accepted", async () => {
  const model = scriptedModel([say("never")]);
  const session = await open({ model });
  const wrong = { city: "string" } as unknown as Schema;
  expect(await failure(session.run("Hi", { output: wrong }))).toMatchObject({ code: "invalid_schema" });
  expect(model.requests).toEqual([]);
  expect(session.read().messages).toEqual([]);
});
