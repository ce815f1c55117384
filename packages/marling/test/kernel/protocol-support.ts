// A protocol of one's own: the standard driver behind callbacks that a test brings.

import { definePlugin, type Plugin } from "marling";
import type { ProtocolDriverFactory, ProtocolSession } from "../../src/plugin/protocol.ts";
import { standardDriverFactory } from "../../src/plugin/standard-protocol.ts";

export function protocol(
  session: ProtocolSession,
  driver: ProtocolDriverFactory = standardDriverFactory(),
): Plugin {
  return definePlugin({ id: "protocol", build: () => ({ protocol: { session, driver } }) })();
}
