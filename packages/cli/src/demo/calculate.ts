// Sums with + - * / and parentheses. Reads the text itself: nothing that was typed is ever run.

const TOKEN = /\s*(?:(\d+(?:\.\d+)?)|([-+*/()]))/y;

interface Reading {
  readonly tokens: readonly (number | string)[];
  at: number;
}

/** The value of an expression; nothing when it is none. */
export function calculate(expression: string): number | undefined {
  const tokens = tokensOf(expression);
  if (tokens === undefined || tokens.length === 0) return undefined;
  const reading: Reading = { tokens, at: 0 };
  const value = readSum(reading);
  return reading.at === tokens.length && value !== undefined && Number.isFinite(value) ? value : undefined;
}

function tokensOf(expression: string): readonly (number | string)[] | undefined {
  const text = expression.trimEnd();
  const tokens: (number | string)[] = [];
  let at = 0;
  while (at < text.length) {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(text);
    if (found === null) return undefined;
    const [whole, number, symbol = ""] = found;
    tokens.push(number === undefined ? symbol : Number(number));
    at += whole.length;
  }
  return tokens;
}

function readSum(reading: Reading): number | undefined {
  let value = readProduct(reading);
  for (
    let sign = reading.tokens[reading.at];
    sign === "+" || sign === "-";
    sign = reading.tokens[reading.at]
  ) {
    reading.at += 1;
    const next = readProduct(reading);
    value = both(value, next, sign === "+" ? (a, b) => a + b : (a, b) => a - b);
  }
  return value;
}

function readProduct(reading: Reading): number | undefined {
  let value = readFactor(reading);
  for (
    let sign = reading.tokens[reading.at];
    sign === "*" || sign === "/";
    sign = reading.tokens[reading.at]
  ) {
    reading.at += 1;
    const next = readFactor(reading);
    value = both(value, next, sign === "*" ? (a, b) => a * b : (a, b) => a / b);
  }
  return value;
}

function readFactor(reading: Reading): number | undefined {
  const token = reading.tokens[reading.at];
  reading.at += 1;
  if (typeof token === "number") return token;
  if (token === "-") {
    const value = readFactor(reading);
    return value === undefined ? undefined : -value;
  }
  if (token !== "(") return undefined;
  const value = readSum(reading);
  const isClosed = reading.tokens[reading.at] === ")";
  reading.at += 1;
  return isClosed ? value : undefined;
}

function both(
  a: number | undefined,
  b: number | undefined,
  combine: (a: number, b: number) => number,
): number | undefined {
  return a === undefined || b === undefined ? undefined : combine(a, b);
}
