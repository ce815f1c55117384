// Every adapter against a service that never ends, and one that repeats keys.

import { aiSdkModel } from "marling/ai-sdk";
import { modelConformance } from "marling/testing";
import { describe, test } from "vitest";
import { hostileServer } from "./hostile-server.ts";
import { hostileProviders } from "./providers.ts";

/** With signs that base64, addresses and JSON write otherwise. */
const KEY = 'test/Key+0123456789"abcdef%ghi';

for (const { name, wire, model, noKey } of hostileProviders(KEY)) {
  const skip = {
    ...(wire.skips.reasoning === undefined ? {} : { reasoning: wire.skips.reasoning }),
    ...(name.startsWith("google") ? { arguments: "arguments come whole, in one event" } : {}),
    ...(noKey === true ? { MP5: "it sends no key" } : {}),
  };
  modelConformance(
    name,
    {
      open: async (play) => {
        const server = await hostileServer(wire, play);
        const made = model(server.url);
        const port = "doStream" in made ? aiSdkModel(made) : made;
        return { ...server, port, ...(noKey === true ? {} : { key: KEY }) };
      },
      skip,
    },
    { describe, test },
  );
}
