// Providers and contexts for the tests of this folder.

import type { Json } from "../../src/model/json.ts";
import { attachment } from "../../src/model/tool-value.ts";
import { hostView } from "../../src/plugin/host-services.ts";
import type {
  ExecutableCall,
  PrepareContext,
  ToolContext,
  ToolKey,
  ToolManifest,
  ToolProvider,
} from "../../src/tool/contract.ts";
import { ToolRegistry } from "../../src/tool/registry.ts";

/** A provider whose list can be changed, and which answers every call with its own label. */
export class SampleProvider implements ToolProvider {
  readonly label: string;
  listed: readonly ToolManifest[];
  /** Known, but not advertised. */
  unlisted: readonly ToolManifest[] = [];
  readonly contractsAsked: string[] = [];
  readonly executed: ExecutableCall[] = [];

  constructor(label: string, listed: readonly ToolManifest[]) {
    this.label = label;
    this.listed = listed;
  }

  manifests(): readonly ToolManifest[] {
    return this.listed;
  }

  resolve(key: ToolKey): ToolManifest | undefined {
    return [...this.listed, ...this.unlisted].find((tool) =>
      "id" in key ? tool.id === key.id : tool.name === key.name,
    );
  }

  contract(name: string): { inputSchema: { type: string } } | undefined {
    this.contractsAsked.push(name);
    return this.resolve({ name }) === undefined ? undefined : { inputSchema: { type: "object" } };
  }

  execute(call: ExecutableCall): unknown {
    this.executed.push(call);
    return `${this.label}:${call.name}`;
  }
}

export function manifest(id: string, name: string = id, more: Partial<ToolManifest> = {}): ToolManifest {
  return { id, name, description: `The tool ${name}.`, ...more };
}

export function provider(label: string, ...ids: readonly string[]): SampleProvider {
  return new SampleProvider(
    label,
    ids.map((id) => manifest(id)),
  );
}

/** A registry with one source, whose tools have these ids. */
export const withTools = (...ids: readonly string[]): ToolRegistry =>
  new ToolRegistry({ sources: [{ id: "plugins", providers: [provider("p", ...ids)] }] });

export const names = (registry: ToolRegistry): readonly string[] =>
  registry.manifests().map(({ name }) => name);

export function call(toolId: string, args: Json = {}): ExecutableCall {
  return { toolId, name: toolId, callId: "call-1", args, input: args };
}

export function toolContext(more: Partial<ToolContext> = {}): ToolContext {
  return {
    sessionId: "s",
    turnId: "t",
    callId: "call-1",
    frameId: "f",
    attempt: 1,
    maxAttempts: 1,
    signal: new AbortController().signal,
    idempotencyKey: "key",
    progress: () => {},
    completionKey: async () => "completion",
    pending: () => {
      throw new Error("not in this test");
    },
    callTools: async () => [],
    host: hostView({}, "tool"),
    directCompletion: () => Promise.reject(new Error("not in this test")),
    attachments: {
      put: async () => attachment({ kind: "stored", mediaType: "text/plain", ref: "r", bytes: 1 }),
    },
    ...more,
  };
}

export function prepareContext(more: Partial<PrepareContext> = {}): PrepareContext {
  return {
    sessionId: "s",
    turnId: "t",
    callId: "call-1",
    signal: new AbortController().signal,
    pluginInput: () => undefined,
    ...more,
  };
}
