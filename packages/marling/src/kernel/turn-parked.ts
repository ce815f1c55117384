// Thrown out of a run of a turn that has nothing to do until something arrives: everything it came to is in the journal,
// and a later run, here or elsewhere, goes on from there.

export interface ParkedOn {
  readonly name: string;
  /** When the wait is given up; never by itself when there is none. */
  readonly due: number | undefined;
}

export class TurnParked extends Error {
  override readonly name: string = "TurnParked";
  readonly waits: readonly ParkedOn[];

  constructor(waits: readonly ParkedOn[]) {
    super(`the turn sleeps until ${waits.map(({ name }) => name).join(" or ")} is over`);
    this.waits = waits;
  }

  /** The earliest time that one of its waits is given up. */
  get due(): number | undefined {
    const times = this.waits.flatMap(({ due }) => due ?? []);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  /** One for several calls of a turn that all sleep. */
  static join(several: readonly TurnParked[]): TurnParked {
    return new TurnParked(several.flatMap(({ waits }) => waits));
  }
}
