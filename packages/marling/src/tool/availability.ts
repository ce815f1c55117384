// Availability tiers: how present a tool is, from not at all to shown in the prompt.

import type { AvailabilityTier, ToolManifest } from "./contract.ts";

/** All tiers, the least present first. `searchable` is found, `callable` may run, `showcased` is shown in the prompt. */
export const AVAILABILITY_TIERS: readonly AvailabilityTier[] = Object.freeze([
  "off",
  "searchable",
  "callable",
  "showcased",
]);

/** The tier that holds: the override, else what the manifest says, else `showcased`. */
export function effectiveTier(
  manifest: Pick<ToolManifest, "availability">,
  override?: AvailabilityTier | undefined,
): AvailabilityTier {
  return override ?? manifest.availability ?? "showcased";
}

/** Whether a tier reaches another: off < searchable < callable < showcased. */
export function tierReaches(tier: AvailabilityTier, wanted: AvailabilityTier): boolean {
  return AVAILABILITY_TIERS.indexOf(tier) >= AVAILABILITY_TIERS.indexOf(wanted);
}

export function isAvailabilityTier(value: unknown): value is AvailabilityTier {
  return AVAILABILITY_TIERS.some((tier) => tier === value);
}
