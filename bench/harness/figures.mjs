// Medians, ratios within a run, and tables.

export function quantile(values, share) {
  if (values.length === 0) return Number.NaN;
  const sorted = values.toSorted((a, b) => a - b);
  const place = (sorted.length - 1) * share;
  const [below, above] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
  return below + (above - below) * (place - Math.floor(place));
}

export const median = (values) => quantile(values, 0.5);
export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** The median over rounds of what two adapters came to in the same round; nothing where they share no round. */
export function paired(ours, theirs, combine) {
  const shared = ours.map((value, round) => [value, theirs[round]]);
  const both = shared.filter(([a, b]) => a !== undefined && b !== undefined);
  return both.length === 0 ? undefined : median(both.map(([a, b]) => combine(a, b)));
}

export const ratio = (ours, theirs) => paired(ours, theirs, (a, b) => a / b);
export const difference = (ours, theirs) => paired(ours, theirs, (a, b) => a - b);

export function number(value, digits = 3) {
  if (value === undefined || value === null || Number.isNaN(value)) return "-";
  if (typeof value !== "number") return String(value);
  return Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(digits)));
}

export const times = (value) => (value === undefined ? "-" : `${number(value)}x`);

export function bytes(value) {
  if (value === undefined || Number.isNaN(value)) return "-";
  return value >= 10 * 2 ** 20 ? `${number(value / 2 ** 20)} MiB` : `${number(value / 1024)} KiB`;
}

export function table(head, rows) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  const rule = head.map((_, index) => (index === 0 ? "---" : "---:"));
  return [line(head), line(rule), ...rows.map(line)].join("\n");
}
