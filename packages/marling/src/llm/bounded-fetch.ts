// A `fetch` whose answers are read within bounds. Providers of the AI SDK hold what they are sent until a line, an event or
// the body of a refusal ends: that they can be made to hold for ever is seen here, before it gets there.
//   LA24  what is held of one event, or of a refusal, is bounded, whoever reads the bytes.

import type { AnswerLimits } from "../model/answer-limits.ts";
import { EventBytes, LONGEST_REFUSAL, longestEvent } from "./answer-bytes.ts";

type Fetch = typeof globalThis.fetch;

export interface FetchBounds {
  readonly limits: AnswerLimits;
  /** Told when an event is too long; its body then breaks with the error. */
  onTooLong(): Error;
}

/** A `fetch` that has bounds of its own makes one with others under this name. */
export const WITH_BOUNDS: unique symbol = Symbol.for("marling.fetch.withBounds");

export function boundedFetch(fetch: Fetch, bounds: FetchBounds): Fetch {
  const own = (fetch as Fetch & { readonly [WITH_BOUNDS]?: (bounds: FetchBounds) => Fetch })[WITH_BOUNDS];
  if (own !== undefined) return own(bounds);
  return async (input, init) => boundedResponse(await fetch(input, init), bounds);
}

/** Takes the bytes of a body: all of them, none from here on, or what is wrong with them. */
export type TakeBytes = (bytes: Uint8Array) => "more" | "enough" | Error;

/** How the body of an answer with this status is read. */
export function bodyBounds(isOk: boolean, { limits, onTooLong }: FetchBounds): TakeBytes {
  if (isOk) {
    const event = new EventBytes(longestEvent(limits));
    return (bytes) => (event.take(bytes) ? "more" : onTooLong());
  }
  let size = 0;
  return (bytes) => {
    size += bytes.length;
    return size <= LONGEST_REFUSAL ? "more" : "enough";
  };
}

function boundedResponse(response: Response, bounds: FetchBounds): Response {
  const { body, status, statusText, headers, url, ok } = response;
  if (body === null) return response;
  const bounded = new Response(boundedBody(body, bodyBounds(ok, bounds)), { status, statusText, headers });
  Object.defineProperty(bounded, "url", { value: url });
  return bounded;
}

function boundedBody(body: ReadableStream<Uint8Array>, take: TakeBytes): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const leave = (): void => void reader.cancel().catch(() => {});
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        const taken = take(value);
        if (taken === "more") return controller.enqueue(value);
        leave();
        if (taken !== "enough") return controller.error(taken);
        controller.enqueue(value);
        controller.close();
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
