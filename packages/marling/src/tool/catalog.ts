// What one session offers to its model: a fixed list of tools, with their contracts resolved when somebody asks.
//   TC1  after the registry, or the explicit list in its place, tools are only ever taken away; authority comes last.
//   TC2  contracts are resolved at most once per tool, and for no tool before it is shown or called.
//   TC3  a catalog never changes; a change of tools is another catalog with another fingerprint.

import { sha256 } from "../base/digest.ts";
import { canonicalJson, decodeJson, type JsonObject } from "../model/json.ts";
import { effectiveTier, tierReaches } from "./availability.ts";
import type { AvailabilityTier, ToolContract, ToolManifest } from "./contract.ts";

/** A tool as a model is told of it. */
export interface ModelToolSpec {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
}

/** A tool as discovery shows it. */
export interface DiscoveryRecord {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly namespace?: string;
  readonly aliases: readonly string[];
  readonly availability: AvailabilityTier;
  readonly isCallable: boolean;
  readonly isShowcased: boolean;
  readonly activation: "always" | "internal";
  readonly bindings?: JsonObject;
  readonly compactContract?: string;
}

export interface CatalogInput {
  /** The members of the registry. */
  readonly tools: readonly ToolManifest[];
  resolveContract(name: string): ToolContract | undefined;
  readonly contributions: readonly CatalogContribution[];
  /** The session's own removals, after those of the plugins. */
  readonly overlay?: CatalogContribution;
  readonly toolAccess: { readonly tools: readonly string[]; readonly hiddenTools: readonly string[] };
}

export interface CatalogContribution {
  readonly remove: readonly string[];
}

/** Makes the catalog of a session: the list, then removals of contributors, overlay and authority, in this order. */
export function resolveToolCatalog(input: CatalogInput): ToolCatalog {
  const { tools, contributions, overlay, toolAccess } = input;
  const removals = [
    ...contributions,
    ...(overlay === undefined ? [] : [overlay]),
    { remove: toolAccess.hiddenTools },
  ];
  const removed = new Set(removals.flatMap(({ remove }) => remove));
  const listed = toolAccess.tools.length === 0 ? tools : explicitList(tools, toolAccess.tools);
  const known = new Set(tools.map(({ name }) => name));
  return new ToolCatalog(
    listed.filter(({ name }) => !removed.has(name)),
    { resolveContract: (name) => (known.has(name) ? input.resolveContract(name) : undefined) },
  );
}

export class ToolCatalog {
  readonly members: readonly ToolManifest[];
  readonly names: readonly string[];
  readonly #byName: ReadonlyMap<string, ToolManifest>;
  readonly #resolveContract: (name: string) => ToolContract | undefined;
  readonly #contracts = new Map<string, ToolContract | undefined>();
  #specs: readonly ModelToolSpec[] | undefined;
  #fingerprint: string | undefined;

  constructor(
    members: readonly ToolManifest[],
    options: { readonly resolveContract: (name: string) => ToolContract | undefined },
  ) {
    this.members = Object.freeze([...members]);
    this.names = Object.freeze(members.map(({ name }) => name));
    this.#byName = new Map(members.map((manifest) => [manifest.name, manifest]));
    this.#resolveContract = options.resolveContract;
  }

  /** Moves with every change to the list or to a manifest in it. */
  get fingerprint(): string {
    this.#fingerprint ??= sha256(canonicalJson(decodeJson(this.members, "catalog")));
    return this.#fingerprint;
  }

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  manifest(name: string): ToolManifest | undefined {
    return this.#byName.get(name);
  }

  /** Whether a call of this name may run: a member whose tier is callable or higher. */
  isCallable(name: string): boolean {
    return this.#reaches(name, "callable");
  }

  contract(name: string): ToolContract | undefined {
    if (!this.has(name)) return undefined;
    if (!this.#contracts.has(name)) this.#contracts.set(name, this.#resolveContract(name));
    return this.#contracts.get(name);
  }

  /** The tools a model is told of: callable members with a contract. Made on first use. */
  specs(): readonly ModelToolSpec[] {
    this.#specs ??= Object.freeze(this.members.flatMap((manifest) => this.#spec(manifest)));
    return this.#specs;
  }

  /** The members that the prompt documents. */
  showcased(): readonly ToolManifest[] {
    return this.members.filter(({ name }) => this.#reaches(name, "showcased"));
  }

  /** The members that discovery finds. */
  searchable(): readonly DiscoveryRecord[] {
    return this.members.filter(({ name }) => this.#reaches(name, "searchable")).map(discoveryRecord);
  }

  /** Whether something gated by tools is to be shown: without a gate always, else while one of its tools is a member. */
  passesGate(gate: { readonly tools: readonly string[] } | undefined): boolean {
    return gate === undefined || gate.tools.some((name) => this.has(name));
  }

  #reaches(name: string, tier: AvailabilityTier): boolean {
    const manifest = this.#byName.get(name);
    return manifest !== undefined && tierReaches(effectiveTier(manifest), tier);
  }

  #spec({ name, description }: ToolManifest): readonly ModelToolSpec[] {
    const contract = this.isCallable(name) ? this.contract(name) : undefined;
    return contract === undefined
      ? []
      : [Object.freeze({ name, description, inputSchema: contract.inputSchema })];
  }
}

/** The named tools in the order of the list. A name that no member has is listed too; it has no contract, so it cannot run. */
function explicitList(tools: readonly ToolManifest[], names: readonly string[]): readonly ToolManifest[] {
  const byName = new Map(tools.map((manifest) => [manifest.name, manifest]));
  return [...new Set(names)].map(
    (name) => byName.get(name) ?? Object.freeze({ id: name, name, description: "" }),
  );
}

function discoveryRecord(manifest: ToolManifest): DiscoveryRecord {
  const { id, name, description, discovery, bindings, compactContract, activation = "always" } = manifest;
  const availability = effectiveTier(manifest);
  return Object.freeze({
    id,
    name,
    description,
    aliases: discovery?.aliases ?? [],
    ...(discovery?.namespace === undefined ? {} : { namespace: discovery.namespace }),
    availability,
    isCallable: tierReaches(availability, "callable"),
    isShowcased: tierReaches(availability, "showcased"),
    activation,
    ...(bindings === undefined ? {} : { bindings }),
    ...(compactContract === undefined ? {} : { compactContract }),
  });
}
