// Heads as differences: a commit stores what it changed of the head, whatever the history holds.
//   HP1  folding the patches of a path, oldest first, gives the newest head; so does folding from one on that is whole.
//   HP2  a patch holds the members that changed and, of lists, the items that changed.
//   HP4  texts of members have their members sorted, so that the text of a head can be put together from them.
//   HP3  `turnIndex` is in every patch; `leaf` is left out when it is the last node of the commit; the parent is kept
//        with the session, because a fork has none.

import { canonicalJson, canonicalMembers, type Json, type JsonObject } from "../../model/json.ts";
import type { SessionHead } from "../contract.ts";

/** What a commit changed of the head. */
export interface HeadPatch {
  /** Members that are new or have another value. */
  readonly set: JsonObject;
  /** Lists by member: the length, then each item that is new or changed as `[index, value]`. */
  readonly lists?: { readonly [member: string]: readonly Json[] };
  /** Members that are no more. */
  readonly gone?: readonly string[];
}

type Item = { readonly value: Json; readonly text: string };
type Member = { readonly text: string } | { readonly items: readonly Item[] };

/** A head with the texts of its members, to compare the next one with. */
export type HeadImage = ReadonlyMap<string, Member>;

const APART: ReadonlySet<string> = new Set(["leaf", "parentSessionId", "turnIndex"]);

/** What `head` has that `before` has not, or all that it has, and the image to compare the next head with. */
export function patchHead(
  before: HeadImage | undefined,
  head: SessionHead,
  { lastNode, isWhole = false }: { readonly lastNode: string | undefined; readonly isWhole?: boolean },
): { readonly patch: HeadPatch; readonly image: HeadImage } {
  const set: { [member: string]: Json } = { turnIndex: head.turnIndex };
  if (lastNode === undefined || head.leaf !== lastNode) set.leaf = head.leaf;
  let lists: { [member: string]: readonly Json[] } | undefined;
  const image = new Map<string, Member>();
  let stayed = 0;
  for (const name in head) {
    if (APART.has(name)) continue;
    const value = (head as unknown as JsonObject)[name] as Json;
    const known = before?.get(name);
    const member = imageOf(value, known);
    const compared = isWhole ? undefined : known;
    image.set(name, member);
    if (known !== undefined) stayed += 1;
    if ("text" in member) {
      if (!isSameText(member.text, compared)) set[name] = value;
      continue;
    }
    const changes = changedItems(compared, member.items);
    if (changes === undefined) continue;
    lists ??= {};
    lists[name] = changes;
  }
  const hasGone = before !== undefined && stayed < before.size;
  const gone = hasGone ? [...before.keys()].filter((name) => !image.has(name)) : undefined;
  const patch: HeadPatch = {
    set,
    ...(lists === undefined ? {} : { lists }),
    ...(gone === undefined ? {} : { gone }),
  };
  return { patch, image };
}

/** Whether two heads have the same value of a member that is no list. */
export function isSameMember(name: keyof SessionHead, one: HeadImage, other: HeadImage): boolean {
  const member = one.get(name);
  return member !== undefined && "text" in member && isSameText(member.text, other.get(name));
}

/** How many items the lists of a head have. */
export function countItems(image: HeadImage): number {
  let count = 0;
  for (const member of image.values()) if ("items" in member) count += member.items.length;
  return count;
}

/** The canonical JSON of a head, from the texts in its image: what did not change is not made again. */
export function headText(head: SessionHead, image: HeadImage): string {
  return canonicalMembers(head, (name) => memberText(image.get(name)));
}

function memberText(member: Member | undefined): string | undefined {
  if (member === undefined || "text" in member) return member?.text;
  return `[${member.items.map(({ text }) => text).join(",")}]`;
}

/** The patch that a fork begins with: everything stays, but nothing was spent yet. */
export function forkPatch(turnIndex: Json, leaf: Json): HeadPatch {
  return { set: { turnIndex, leaf }, lists: { ledger: [0] } };
}

/** The image of the head that a fork begins with, where its source had this one. */
export function forkImage(image: HeadImage): HeadImage {
  return new Map([...image, ["ledger", { items: [] }]]);
}

/** The head of an image, with what is kept apart from it. */
export function headOf(
  image: HeadImage,
  apart: Pick<SessionHead, "leaf" | "parentSessionId" | "turnIndex">,
): SessionHead {
  const members = [...image].map(([name, member]): [string, Json] => [
    name,
    "text" in member ? JSON.parse(member.text) : member.items.map(({ text }) => JSON.parse(text)),
  ]);
  return { ...Object.fromEntries(members), ...apart } as unknown as SessionHead; // the members that `patchHead` took from a head
}

/** Frozen items that are the same object have the same text; others are compared by it. */
function imageOf(value: Json, before: Member | undefined): Member {
  if (!Array.isArray(value)) return { text: canonicalJson(value) };
  const known = before !== undefined && "items" in before ? before.items : [];
  return {
    items: value.map((item: Json, index) => {
      const old = known[index];
      if (old !== undefined && old.value === item && Object.isFrozen(item)) return old;
      return { value: item, text: canonicalJson(item) };
    }),
  };
}

function isSameText(text: string, before: Member | undefined): boolean {
  return before !== undefined && "text" in before && before.text === text;
}

function changedItems(before: Member | undefined, items: readonly Item[]): readonly Json[] | undefined {
  const known = before !== undefined && "items" in before ? before.items : undefined;
  const changes: Json[] = [items.length];
  items.forEach((item, index) => {
    if (item !== known?.[index] && item.text !== known?.[index]?.text) changes.push([index, item.value]);
  });
  return known?.length === items.length && changes.length === 1 ? undefined : changes;
}

/** Puts patches together, oldest first. */
export class HeadFold {
  readonly #members = new Map<string, Json>();
  readonly #lists = new Map<string, Json[]>();

  add({ set, lists = {}, gone = [] }: HeadPatch): void {
    this.#members.delete("leaf"); // That of the commit before.
    for (const name of gone) {
      this.#members.delete(name);
      this.#lists.delete(name);
    }
    for (const [name, value] of Object.entries(set)) {
      this.#members.set(name, value);
      this.#lists.delete(name);
    }
    for (const [name, [length, ...changes]] of Object.entries(lists))
      this.#change(name, Number(length), changes);
  }

  /** The head so far, with what whoever asks knows: the parent, and the leaf when the newest patch does not name it. */
  head({ parentSessionId, leaf }: Pick<SessionHead, "parentSessionId" | "leaf">): SessionHead {
    const members = {
      leaf,
      ...Object.fromEntries(this.#members),
      ...Object.fromEntries(this.#lists),
      parentSessionId,
    };
    return members as unknown as SessionHead; // the members that `patchHead` took from a head
  }

  #change(name: string, length: number, changes: readonly Json[]): void {
    const list = this.#lists.get(name) ?? [];
    list.length = Math.min(list.length, length);
    for (const change of changes) {
      if (Array.isArray(change)) list[Number(change[0])] = change[1] as Json;
    }
    this.#members.delete(name);
    this.#lists.set(name, list);
  }
}
