// An append-only list whose versions share their items.
//   L1  a version never changes after it was made.
//   L2  appending to the newest version costs what is appended; appending to an older one makes a branch that
//       shares everything up to it.
//   L3  handing a version out costs nothing; `toArray` copies references once per version and keeps the result.
//   L4  a list with a key finds an item by its key, in each version the items of that version only. Other keys are indexed
//       when somebody asks by them.
//   L5  branches of branches stay shallow: small segments below a new branch are joined, so that reading an item takes
//       a number of steps that grows with the logarithm of the length at most.
//   L6  the beginning of a list may be left out until somebody reads it: then it is asked for, once.
//   L7  a branch shares what is before it, and nothing that is appended to it is kept by the list that it left.

interface Segment<T> {
  readonly items: T[];
  readonly isLoaded: boolean;
  readonly base: SharedList<T> | undefined;
  readonly depth: number;
  /** Positions by each key that was asked for; filled up to the newest item when somebody asks. */
  indexes: Map<KeyOf<T>, Index> | undefined;
}

interface Index {
  readonly positions: Map<string, number>;
  indexed: number;
}

/** The key of an item, which never changes; an item without one is not found by it. */
type KeyOf<T> = (item: T) => string | undefined;

/** The beginning of a list that is not there yet. */
export interface EarlierItems<T> {
  readonly length: number;
  load(): readonly T[];
}

/** Segments that may lie on each other before small ones are joined. */
const DEEPEST = 16;

export class SharedList<T> implements Iterable<T> {
  readonly length: number;
  readonly #segment: Segment<T>;
  readonly #keyOf: KeyOf<T> | undefined;
  #array: readonly T[] | undefined;
  #ground: SharedList<T> | undefined;

  private constructor(segment: Segment<T>, length: number, keyOf: KeyOf<T> | undefined) {
    this.#segment = segment;
    this.length = length;
    this.#keyOf = keyOf;
  }

  /** A list of its own. With `keyOf`, `positionOf` finds items; the key of an item must never change. */
  static of<T>(items: readonly T[] = [], keyOf?: (item: T) => string): SharedList<T> {
    return new SharedList<T>(SharedList.#segmentOf([...items], undefined), items.length, keyOf);
  }

  /** As `of`, without items whose key an earlier one has. */
  static distinct<T>(items: Iterable<T>, keyOf: (item: T) => string): SharedList<T> {
    const segment = SharedList.#segmentOf<T>([], undefined);
    const positions = new Map<string, number>();
    for (const item of items) {
      const key = keyOf(item);
      if (positions.has(key)) continue;
      positions.set(key, segment.items.length);
      segment.items.push(item);
    }
    segment.indexes = new Map([[keyOf, { positions, indexed: segment.items.length }]]);
    return new SharedList<T>(segment, segment.items.length, keyOf);
  }

  /** As `of`, behind items that are loaded when they are read. */
  static behind<T>(
    earlier: EarlierItems<T>,
    items: readonly T[],
    keyOf?: (item: T) => string,
  ): SharedList<T> {
    const ground = new SharedList<T>(SharedList.#segmentLater(earlier), earlier.length, keyOf);
    const segment = SharedList.#segmentOf([...items], ground);
    return new SharedList<T>(segment, earlier.length + items.length, keyOf);
  }

  append(added: readonly T[]): SharedList<T> {
    if (added.length === 0) return this;
    const isNewest = this.#start + this.#segment.items.length === this.length;
    const segment = isNewest ? this.#segment : SharedList.#segmentOf<T>([], this.#branchGround());
    for (const item of added) segment.items.push(item);
    return new SharedList(segment, this.length + added.length, this.#keyOf);
  }

  /** A version with the same items for another owner: see L7. */
  branch(): SharedList<T> {
    return new SharedList(SharedList.#segmentOf<T>([], this.#branchGround()), this.length, this.#keyOf);
  }

  /** The version that has the first `length` items. */
  take(length: number): SharedList<T> {
    if (length >= this.length) return this;
    let list: SharedList<T> = this;
    for (
      let base = list.#segment.base;
      base !== undefined && length <= base.length;
      base = list.#segment.base
    )
      list = base;
    return new SharedList(list.#segment, Math.max(0, length), this.#keyOf);
  }

  at(index: number): T | undefined {
    const wanted = index < 0 ? this.length + index : index;
    if (wanted < 0 || wanted >= this.length) return undefined;
    let list: SharedList<T> = this;
    for (let base = list.#segment.base; base !== undefined && wanted < base.length; base = list.#segment.base)
      list = base;
    return list.#segment.items[wanted - list.#start];
  }

  /** Where the first item with this key is; `undefined` when there is none, or the list has no key. */
  positionOf(key: string): number | undefined {
    return this.#keyOf === undefined ? undefined : this.positionBy(this.#keyOf, key);
  }

  /** As `positionOf`, by another key: always the same function for the same key. */
  positionBy(keyOf: KeyOf<T>, key: string): number | undefined {
    const loaded = this.#positionIn(keyOf, key, { isLoadedOnly: true });
    const isKnown = loaded !== undefined || this.unloaded === 0;
    return isKnown ? loaded : this.#positionIn(keyOf, key, { isLoadedOnly: false });
  }

  /** As `positionOf`, of an item that is there already; loads nothing. */
  loadedPositionOf(key: string): number | undefined {
    return this.#keyOf === undefined ? undefined : this.#positionIn(this.#keyOf, key, { isLoadedOnly: true });
  }

  #positionIn(
    keyOf: KeyOf<T>,
    key: string,
    { isLoadedOnly }: { readonly isLoadedOnly: boolean },
  ): number | undefined {
    let found: number | undefined;
    for (let list: SharedList<T> | undefined = this; list !== undefined; list = list.#segment.base) {
      if (isLoadedOnly && !list.#segment.isLoaded) continue;
      const position = list.#positionInSegment(keyOf, key);
      if (position !== undefined && position < list.length) found = position;
    }
    return found;
  }

  /** How many items at the beginning are not there until somebody reads them. */
  get unloaded(): number {
    let list: SharedList<T> = this;
    for (let base = list.#segment.base; base !== undefined; base = list.#segment.base) list = base;
    return list.#segment.isLoaded ? 0 : list.length;
  }

  /** How many items both versions begin with because they share them; items that are the same by chance do not count. */
  sharedLength(other: SharedList<T>): number {
    if (this.#segment === other.#segment) return Math.min(this.length, other.length);
    const lengths = new Map<Segment<T>, number>();
    for (let list: SharedList<T> | undefined = this; list !== undefined; list = list.#segment.base)
      lengths.set(list.#segment, list.length);
    for (let list: SharedList<T> | undefined = other; list !== undefined; list = list.#segment.base) {
      const length = lengths.get(list.#segment);
      if (length !== undefined) return Math.min(length, list.length);
    }
    return 0;
  }

  /** The last `count` items, oldest first; costs `count`. */
  tail(count: number): readonly T[] {
    const from = Math.max(0, this.length - count);
    if (from >= this.#start) return this.#segment.items.slice(from - this.#start, this.#own);
    const items: T[] = [];
    for (let index = from; index < this.length; index += 1) items.push(this.at(index) as T);
    return items;
  }

  toArray(): readonly T[] {
    if (this.#array !== undefined) return this.#array;
    const { base } = this.#segment;
    if (this.#own === 0 && base !== undefined) return base.toArray();
    const parts: (readonly T[])[] = [];
    for (let list: SharedList<T> | undefined = this; list !== undefined; list = list.#segment.base) {
      parts.push(list.#segment.items.slice(0, list.#own));
    }
    this.#array = Object.freeze(([] as T[]).concat(...parts.reverse())); // several times as fast as flat()
    return this.#array;
  }

  *[Symbol.iterator](): Iterator<T> {
    for (let index = 0; index < this.length; index += 1) yield this.at(index) as T;
  }

  static #segmentOf<T>(items: T[], base: SharedList<T> | undefined): Segment<T> {
    const depth = base === undefined ? 0 : base.#segment.depth + 1;
    return { items, isLoaded: true, base, depth, indexes: undefined };
  }

  static #segmentLater<T>(earlier: EarlierItems<T>): Segment<T> {
    let items: T[] | undefined;
    return {
      get items() {
        items ??= [...earlier.load()];
        return items;
      },
      get isLoaded() {
        return items !== undefined;
      },
      base: undefined,
      depth: 0,
      indexes: undefined,
    };
  }

  /** The position of the segment's first item. */
  get #start(): number {
    return this.#segment.base?.length ?? 0;
  }

  /** How many items of the segment belong to this version. */
  get #own(): number {
    return this.length - this.#start;
  }

  #positionInSegment(keyOf: KeyOf<T>, key: string): number | undefined {
    const segment = this.#segment;
    const { items } = segment;
    segment.indexes ??= new Map();
    const index = segment.indexes.get(keyOf) ?? { positions: new Map<string, number>(), indexed: 0 };
    if (index.indexed === 0) segment.indexes.set(keyOf, index);
    for (; index.indexed < items.length; index.indexed += 1) {
      const itemKey = keyOf(items[index.indexed] as T);
      if (itemKey !== undefined && !index.positions.has(itemKey))
        index.positions.set(itemKey, this.#start + index.indexed);
    }
    return index.positions.get(key);
  }

  /** What a branch of this version lies on: the version itself, or the same items in fewer segments. */
  #branchGround(): SharedList<T> {
    const { base } = this.#segment;
    if (this.#own === 0 && base !== undefined) return base.#branchGround();
    this.#ground ??= this.#segment.depth < DEEPEST ? this : this.#joined();
    return this.#ground;
  }

  /** Joins segments from the newest down, as long as the next one is not at least twice as long as what is joined. */
  #joined(): SharedList<T> {
    let size = this.#own;
    let base = this.#segment.base;
    for (; base !== undefined && base.#own < 2 * size; base = base.#segment.base) size += base.#own;
    if (size === this.#own) return this;
    return new SharedList(SharedList.#segmentOf([...this.tail(size)], base), this.length, this.#keyOf);
  }
}
