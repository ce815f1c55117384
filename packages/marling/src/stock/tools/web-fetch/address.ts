// What kind of place an address is. Whatever is not plainly a public address is something else.
//   WF1  every address has one kind, and only `public` ones are reached without being allowed.
//   WF2  addresses that stand for another one (mapped, compatible, NAT64, 6to4, Teredo) are `translated` and never public:
//        what they stand for is decided by somebody else.

import { isIPv4, isIPv6 } from "node:net";

export type AddressKind =
  | "public"
  | "private"
  | "unique_local"
  | "loopback"
  | "link_local"
  | "shared"
  | "metadata"
  | "unspecified"
  | "multicast"
  | "translated"
  | "reserved";

interface Range {
  readonly value: bigint;
  readonly shift: bigint;
  readonly kind: AddressKind;
}

/** The first range that fits counts. The names after # are those of the IANA registries for special purposes. */
const V4: readonly Range[] = ranges(32n, [
  ["169.254.169.254/32", "metadata"],
  ["169.254.170.2/32", "metadata"], // container credentials
  ["100.100.100.200/32", "metadata"],
  ["168.63.129.16/32", "metadata"], // public by number, a host service by use
  ["0.0.0.0/8", "unspecified"],
  ["10.0.0.0/8", "private"],
  ["100.64.0.0/10", "shared"],
  ["127.0.0.0/8", "loopback"],
  ["169.254.0.0/16", "link_local"],
  ["172.16.0.0/12", "private"],
  ["192.0.0.0/24", "reserved"],
  ["192.0.2.0/24", "reserved"],
  ["192.88.99.0/24", "translated"],
  ["192.168.0.0/16", "private"],
  ["198.18.0.0/15", "reserved"],
  ["198.51.100.0/24", "reserved"],
  ["203.0.113.0/24", "reserved"],
  ["224.0.0.0/4", "multicast"],
  ["240.0.0.0/4", "reserved"],
  ["0.0.0.0/0", "public"],
]);

const V6: readonly Range[] = ranges(128n, [
  ["fd00:ec2::254/128", "metadata"],
  ["::/128", "unspecified"],
  ["::1/128", "loopback"],
  ["::ffff:0:0/96", "translated"],
  ["::/96", "translated"],
  ["64:ff9b::/96", "translated"],
  ["64:ff9b:1::/48", "translated"],
  ["2001::/32", "translated"], // Teredo
  ["2001::/23", "reserved"],
  ["2001:db8::/32", "reserved"],
  ["2002::/16", "translated"],
  ["3fff::/20", "reserved"],
  ["fc00::/7", "unique_local"],
  ["fe80::/10", "link_local"],
  ["fec0::/10", "private"],
  ["ff00::/8", "multicast"],
  ["2000::/3", "public"],
  ["::/0", "reserved"],
]);

/** The kind of an address in text form. What is no address is `reserved`. */
export function addressKind(address: string): AddressKind {
  if (isIPv4(address)) return kindIn(V4, v4Number(address));
  if (isIPv6(address)) return kindIn(V6, v6Number(address));
  return "reserved";
}

function kindIn(table: readonly Range[], value: bigint): AddressKind {
  return table.find((range) => value >> range.shift === range.value)?.kind ?? "reserved";
}

function ranges(bits: bigint, rows: readonly (readonly [string, AddressKind])[]): readonly Range[] {
  return rows.map(([block, kind]) => {
    const [address = "", length = ""] = block.split("/");
    const shift = bits - BigInt(length);
    const value = (bits === 32n ? v4Number(address) : v6Number(address)) >> shift;
    return { value, shift, kind };
  });
}

function v4Number(address: string): bigint {
  return address.split(".").reduce((sum, part) => (sum << 8n) | BigInt(part), 0n);
}

/** A zone, as in `fe80::1%eth0`, says on which wire, not where. */
function v6Number(address: string): bigint {
  const [plain = ""] = address.split("%");
  const [left = "", right] = plain.split("::");
  const before = groupsOf(left);
  const after = right === undefined ? [] : groupsOf(right);
  const gap = Array.from({ length: 8 - before.length - after.length }, () => 0n);
  return [...before, ...gap, ...after].reduce((sum, group) => (sum << 16n) | group, 0n);
}

function groupsOf(text: string): readonly bigint[] {
  if (text === "") return [];
  return text.split(":").flatMap((group) => {
    if (!group.includes(".")) return [BigInt(`0x${group}`)];
    const embedded = v4Number(group);
    return [embedded >> 16n, embedded & 0xffffn];
  });
}
