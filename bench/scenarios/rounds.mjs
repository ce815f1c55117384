// Rounds: in each, every adapter has its turn in a process of its own, forwards in one round and backwards in the next.

/**
 * Runs `measure(adapter, round)` for every adapter in every round; returns what each came to, by adapter and round. One
 * that fails is left out from then on, with the reason.
 */
export async function inRounds(context, { id, rounds, adapters, measure }) {
  const figures = Object.fromEntries(adapters.map((adapter) => [adapter, []]));
  const failed = {};
  for (let round = 0; round < rounds; round += 1) {
    const order = round % 2 === 0 ? adapters : adapters.toReversed();
    for (const adapter of order) {
      if (failed[adapter] !== undefined) continue;
      const { ok, error } = await measure(adapter, round);
      if (error === undefined) figures[adapter][round] = ok;
      else {
        failed[adapter] = error;
        context.note(`${id} ${adapter}: ${error.split("\n")[0]}`);
      }
    }
    context.note(`${id}: round ${round + 1} of ${rounds}`);
  }
  const measured = Object.fromEntries(Object.entries(figures).filter(([, found]) => found.length > 0));
  return { figures: measured, failed };
}

/** One number of every round. */
export const each = (rounds, read) =>
  rounds.map((figures) => (figures === undefined ? undefined : read(figures)));

export const failures = (context, failed, width) =>
  Object.entries(failed).map(([adapter, error]) => [
    context.nameOf(adapter),
    `failed: ${error.split("\n")[0].slice(0, 90).replaceAll("|", "/")}`,
    ...Array.from({ length: width - 2 }, () => ""),
  ]);
