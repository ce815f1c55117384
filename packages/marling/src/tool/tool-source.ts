// A source of the registry: one or several providers under one id.
//   TR1  of two providers of a source that offer one tool id, the later one has it.
//   TR20 a source whose providers return the very lists they returned before, frozen, cannot have changed.
//   TR2  a tool that a provider resolves without advertising it is as good as an advertised one.

import { MarlingError, messageOf } from "../base/errors.ts";
import type { ToolKey, ToolManifest, ToolProvider } from "./contract.ts";
import { decodeManifest } from "./manifest.ts";

export class RegisteredSource {
  readonly id: string;
  readonly #providers: readonly ToolProvider[];
  #lists: readonly (readonly ToolManifest[])[] | undefined;

  constructor(id: string, providers: readonly ToolProvider[]) {
    this.id = id;
    this.#providers = [...providers];
  }

  /** What the source advertises now, by id. Throws `duplicate_tool` for one name under two ids. */
  advertised(): ReadonlyMap<string, ToolManifest> {
    const tools = new Map<string, ToolManifest>();
    const lists = this.#providers.map((provider) => this.#ask("manifests", () => provider.manifests()));
    for (const list of lists) for (const [id, manifest] of this.#listed(list)) tools.set(id, manifest);
    this.#lists = lists;
    refuseSharedNames(tools.values(), `tool source ${this.id}`);
    return tools;
  }

  /** How many tools it advertised, when it cannot advertise others now; costs nothing per tool. */
  settledSize(): number | undefined {
    const lists = this.#lists;
    const isSame = (provider: ToolProvider, index: number): boolean => {
      const list = this.#ask("manifests", () => provider.manifests());
      return list === lists?.[index] && Object.isFrozen(list);
    };
    if (lists === undefined || !this.#providers.every(isSame)) return undefined;
    return lists.reduce((size, list) => size + list.length, 0);
  }

  /** The tool as the source knows it, advertised or not. */
  resolve(key: ToolKey): ToolManifest | undefined {
    return this.#find(key)?.manifest;
  }

  /** The provider that has the tool. */
  providerOf(toolId: string): ToolProvider | undefined {
    return this.#find({ id: toolId })?.provider;
  }

  #find(key: ToolKey): { readonly manifest: ToolManifest; readonly provider: ToolProvider } | undefined {
    for (let index = this.#providers.length - 1; index >= 0; index -= 1) {
      const provider = this.#providers[index] as ToolProvider;
      const manifest = this.#lookup(provider, key);
      if (manifest !== undefined) return { manifest, provider };
    }
    return undefined;
  }

  #lookup(provider: ToolProvider, key: ToolKey): ToolManifest | undefined {
    const raw = this.#resolved(provider, key);
    const manifest = raw === undefined ? undefined : decodeManifest(raw, `tool source ${this.id}`);
    return manifest !== undefined && answers(manifest, key) ? manifest : undefined;
  }

  #resolved(provider: ToolProvider, key: ToolKey): ToolManifest | undefined {
    try {
      if (provider.resolve !== undefined) return provider.resolve(key);
      return provider.manifests().find((manifest) => answers(manifest, key));
    } catch (cause) {
      throw this.#broken("resolve", cause);
    }
  }

  #listed(list: readonly ToolManifest[]): ReadonlyMap<string, ToolManifest> {
    const where = `tool source ${this.id}`;
    const tools = new Map<string, ToolManifest>();
    for (const raw of list) {
      const manifest = decodeManifest(raw, where);
      if (tools.has(manifest.id)) throw duplicate(where, `one tool with the id ${manifest.id}`, manifest);
      tools.set(manifest.id, manifest);
    }
    return tools;
  }

  /** Providers are foreign code: what they throw is told with the source that it came from. */
  #ask<T>(method: string, call: () => T): T {
    try {
      return call();
    } catch (cause) {
      throw this.#broken(method, cause);
    }
  }

  #broken(method: string, cause: unknown): MarlingError {
    const message = `tool source ${this.id}: ${method} threw: ${messageOf(cause)}`;
    return new MarlingError("tool_catalog_failed", message, { cause, details: { source: this.id } });
  }
}

function answers({ id, name }: ToolManifest, key: ToolKey): boolean {
  return "id" in key ? id === key.id : name === key.name;
}

/** Sources by id, in the order of their ids. */
export type SourceMap = ReadonlyMap<string, RegisteredSource>;

export function withSource(sources: SourceMap, source: RegisteredSource): SourceMap {
  const next = new Map(sources).set(source.id, source);
  return new Map([...next].sort(([a], [b]) => (a < b ? -1 : 1)));
}

export function withoutSource(sources: SourceMap, id: string): SourceMap {
  const next = new Map(sources);
  next.delete(id);
  return next;
}

/** One name stands for one tool. */
export function refuseSharedNames(manifests: Iterable<ToolManifest>, where: string): void {
  const owners = new Map<string, string>();
  for (const manifest of manifests) {
    const owner = owners.get(manifest.name);
    if (owner !== undefined) throw duplicate(where, `one tool named ${manifest.name}`, manifest, owner);
    owners.set(manifest.name, manifest.id);
  }
}

function duplicate(where: string, expected: string, { id, name }: ToolManifest, other = id): MarlingError {
  return new MarlingError(
    "duplicate_tool",
    `${where}: expected ${expected}, found two (ids ${other} and ${id})`,
    {
      details: { tool: name },
    },
  );
}
