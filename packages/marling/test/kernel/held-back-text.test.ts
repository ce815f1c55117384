// Text that stream hooks hold back and response hooks give: watchers see it where the stream ended.

import { definePlugin, memoryStore, type Plugin } from "marling";
import { say } from "marling/testing";
import { expect, test } from "vitest";
import { watched } from "../stock/stock-support.ts";
import { live } from "./durable-support.ts";

/** Lets nothing after the first chunk through, and makes another text of the response. */
function holding(finish: (shown: string) => string): Plugin {
  return definePlugin({
    id: "holding",
    build() {
      let chunks = 0;
      return {
        output: {
          stream: ({ chunk }) => {
            chunks += 1;
            return { chunk: chunks === 1 ? chunk : "" };
          },
          response: ({ response }) => ({
            response: {
              ...response,
              parts: response.parts.map((part) =>
                part.kind === "text" ? { ...part, text: finish(part.text) } : part,
              ),
            },
          }),
        },
      };
    },
  })();
}

test.each([
  [
    "what comes behind the streamed text is shown",
    (shown: string) => `${shown} world`,
    ["Hello", " world"],
    "Hello world",
  ],
  ["another text is not shown behind the streamed one", () => "Bye", ["Hello"], "Bye"],
  ["the streamed text is not shown twice", (shown: string) => shown, ["Hello"], "Hello"],
])("%s", async (_name, finish, deltas, text) => {
  const { session } = await live({
    store: memoryStore(),
    plugins: [holding(finish)],
    script: [say("Hello there", { chunks: ["Hello", " there"] })],
  });
  const { events, report } = await watched(session.turn("Go"));
  expect(events.flatMap((event) => (event.kind === "text_delta" ? [event.text] : []))).toEqual(deltas);
  expect(report.text).toBe(text);
});
