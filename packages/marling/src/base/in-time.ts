import type { Clock } from "./clock.ts";

/** Whether work settles before the time is over; infinitely much is no limit. What goes on is not waited for. Rejects like the work. */
export async function isInTime(
  work: Promise<unknown>,
  ms: number,
  { clock }: { readonly clock: Pick<Clock, "after"> },
): Promise<boolean> {
  const done = work.then(() => true);
  if (ms === Number.POSITIVE_INFINITY) return done;
  let stopTimer = (): void => undefined;
  const over = new Promise<boolean>((resolve) => {
    stopTimer = clock.after(ms, () => resolve(false));
  });
  try {
    return await Promise.race([done, over]);
  } finally {
    stopTimer();
  }
}
