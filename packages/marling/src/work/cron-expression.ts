// Cron expressions: five fields, read once. What they mean in a time zone is in cron-schedule.ts.
//   TR20 the fields are minute, hour, day of month, month and day of week: `*`, values, ranges, steps and lists of these,
//        months and days also by their English names; `@hourly`, `@daily` and the like stand for expressions.
//   TR21 when both kinds of day are limited, a day of either kind is one; Sunday is 0 and 7.

import { MarlingError } from "../base/errors.ts";

export interface CronExpression {
  readonly minutes: ReadonlySet<number>;
  readonly hours: ReadonlySet<number>;
  readonly months: ReadonlySet<number>;
  /** Whether a day is one of them: day of the month, and day of the week from Sunday, 0, on. */
  isDay(dayOfMonth: number, dayOfWeek: number): boolean;
}

interface Field {
  readonly name: string;
  readonly first: number;
  readonly last: number;
  /** Names of values, from `first` on. */
  readonly names?: readonly string[];
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const MINUTE: Field = { name: "minute", first: 0, last: 59 };
const HOUR: Field = { name: "hour", first: 0, last: 23 };
const DAY_OF_MONTH: Field = { name: "day of month", first: 1, last: 31 };
const MONTH: Field = { name: "month", first: 1, last: 12, names: MONTHS };
const DAY_OF_WEEK: Field = { name: "day of week", first: 0, last: 7, names: DAYS };

const SHORTHANDS: Readonly<Record<string, string>> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};

/** The most days that months have; February in leap years. */
const LONGEST_MONTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Reads an expression. Throws `invalid_schedule` naming the field that cannot be read. */
export function parseCron(text: string): CronExpression {
  const expression = expand(text.trim().toLowerCase(), text);
  const fields = expression.split(/\s+/);
  if (fields.length !== 5) throw refuse(text, "five fields (minute, hour, day, month, weekday)", text);
  const [minute = "", hour = "", dayOfMonth = "", month = "", dayOfWeek = ""] = fields;
  const days = valuesOf(DAY_OF_MONTH, dayOfMonth, text);
  const weekdays = new Set([...valuesOf(DAY_OF_WEEK, dayOfWeek, text)].map((day) => day % 7));
  const months = valuesOf(MONTH, month, text);
  const isEitherDay = !isOpen(dayOfMonth) && !isOpen(dayOfWeek);
  if (isOpen(dayOfWeek)) refuseNever({ days, months }, text);
  return {
    minutes: valuesOf(MINUTE, minute, text),
    hours: valuesOf(HOUR, hour, text),
    months,
    isDay: (day, weekday) =>
      isEitherDay ? days.has(day) || weekdays.has(weekday) : days.has(day) && weekdays.has(weekday),
  };
}

function expand(expression: string, text: string): string {
  if (!expression.startsWith("@")) return expression;
  const long = Object.hasOwn(SHORTHANDS, expression) ? SHORTHANDS[expression] : undefined;
  if (long === undefined) throw refuse(text, `one of ${Object.keys(SHORTHANDS).join(", ")}`, expression);
  return long;
}

/** As cron has always had it: a field that begins with a star limits nothing. */
function isOpen(field: string): boolean {
  return field.startsWith("*");
}

function valuesOf(field: Field, items: string, text: string): ReadonlySet<number> {
  const values = new Set<number>();
  for (const item of items.split(",")) {
    const { from, to, step } = rangeOf(field, item, text);
    for (let value = from; value <= to; value += step) values.add(value);
  }
  return values;
}

function rangeOf(
  field: Field,
  item: string,
  text: string,
): { readonly from: number; readonly to: number; readonly step: number } {
  const [range = "", stepText, ...others] = item.split("/");
  if (others.length > 0) throw refuse(text, `one step in the ${field.name}`, item);
  const step = stepText === undefined ? 1 : stepOf(field, stepText, text);
  if (range === "*") return { from: field.first, to: field.name === "day of week" ? 6 : field.last, step };
  const [first = "", last, ...more] = range.split("-");
  if (more.length > 0) throw refuse(text, `a range of two values in the ${field.name}`, item);
  const from = valueIn(field, first, text);
  if (last === undefined) return { from, to: stepText === undefined ? from : field.last, step };
  const to = valueIn(field, last, text);
  if (to < from) throw refuse(text, `a range that goes up in the ${field.name}`, item);
  return { from, to, step };
}

function stepOf(field: Field, step: string, text: string): number {
  const number = numberOf(step);
  if (number >= 1 && number <= field.last) return number;
  throw refuse(text, `a step from 1 to ${field.last} in the ${field.name}`, step);
}

function valueIn(field: Field, value: string, text: string): number {
  const name = field.names?.indexOf(value) ?? -1;
  if (name >= 0) return field.first + name;
  const number = numberOf(value);
  if (number >= field.first && number <= field.last) return number;
  const names = field.names === undefined ? "" : ` or ${field.names[0]} to ${field.names.at(-1)}`;
  throw refuse(
    text,
    `${field.first} to ${field.last}${names} as ${field.name}`,
    value === "" ? "nothing" : value,
  );
}

function numberOf(text: string): number {
  return /^\d{1,2}$/.test(text) ? Number(text) : Number.NaN;
}

/** A day that no month of the expression has, such as the 30th of February, would never come. */
function refuseNever(
  { days, months }: { readonly days: ReadonlySet<number>; readonly months: ReadonlySet<number> },
  text: string,
): void {
  const first = Math.min(...days);
  if ([...months].some((month) => first <= (LONGEST_MONTHS[month - 1] ?? 0))) return;
  throw refuse(text, "a day that one of its months has", `day ${first}`);
}

function refuse(expression: string, expected: string, found: string): MarlingError {
  const message = `cron expression ${JSON.stringify(expression)}: expected ${expected}, found ${found}`;
  return new MarlingError("invalid_schedule", message, { details: { expression } });
}
