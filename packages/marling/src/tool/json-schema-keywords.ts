// The keywords of JSON Schema, one row each: how its operand is read and what it checks.
// The order of the table is the order of the checks, so that the most telling reason comes first.

import { canonicalJson, isJsonObject, type Json, type JsonObject, jsonEqual } from "../model/json.ts";
import {
  brief,
  type Check,
  codePoints,
  count,
  type KeywordScope,
  listOf,
  type Mismatch,
  mismatch,
  named,
  namesOf,
  objectOf,
  regularExpression,
} from "./json-schema-operand.ts";

type Keyword = (operand: Json, scope: KeywordScope) => Check | undefined;

const TYPES: ReadonlyMap<string, (value: Json) => boolean> = new Map<string, (value: Json) => boolean>([
  ["null", (value) => value === null],
  ["boolean", (value) => typeof value === "boolean"],
  ["number", (value) => typeof value === "number"],
  ["integer", (value) => Number.isInteger(value)],
  ["string", (value) => typeof value === "string"],
  ["array", (value) => Array.isArray(value)],
  ["object", isJsonObject],
]);

const type: Keyword = (operand, scope) => {
  const names = Array.isArray(operand) ? operand : [operand];
  const accepts = names.map((name: Json) => {
    const accept = typeof name === "string" ? TYPES.get(name) : undefined;
    if (accept === undefined)
      throw scope.refuse("type", `one of ${[...TYPES.keys()].join(", ")}`, brief(name));
    return accept;
  });
  const words = names.map((name: Json) => withArticle(String(name))).join(" or ");
  return (value) =>
    accepts.some((accept) => accept(value))
      ? undefined
      : mismatch(`expected ${words}, found ${found(value)}`);
};

const reference: Keyword = (operand, scope) => {
  if (typeof operand !== "string") throw scope.refuse("$ref", "a string", named(operand));
  return scope.refer(operand);
};

const enumeration: Keyword = (operand, scope) => {
  const options = listOf(operand, "enum", scope);
  const words = options.map(brief).join(", ");
  return (value) =>
    options.some((option) => jsonEqual(option, value))
      ? undefined
      : mismatch(`expected one of ${words}, found ${brief(value)}`);
};

const constant: Keyword = (operand) => (value) =>
  jsonEqual(operand, value) ? undefined : mismatch(`expected ${brief(operand)}, found ${brief(value)}`);

function bound(
  keyword: string,
  words: string,
  accepts: (value: number, limit: number) => boolean,
): [string, Keyword] {
  return [
    keyword,
    (operand, scope) => {
      if (typeof operand !== "number") throw scope.refuse(keyword, "a number", named(operand));
      if (keyword === "multipleOf" && operand <= 0)
        throw scope.refuse(keyword, "a number above 0", String(operand));
      return (value) =>
        typeof value !== "number" || accepts(value, operand)
          ? undefined
          : mismatch(`expected ${words} ${operand}, found ${value}`);
    },
  ];
}

function isMultiple(value: number, unit: number): boolean {
  if (Number.isInteger(value) && Number.isInteger(unit)) return value % unit === 0;
  const times = value / unit;
  return Math.abs(times - Math.round(times)) <= 1e-9 * Math.max(1, Math.abs(times));
}

type Measure = (value: Json) => number | undefined;
const characters: Measure = (value) => (typeof value === "string" ? codePoints(value) : undefined);
const items: Measure = (value) => (Array.isArray(value) ? value.length : undefined);
const members: Measure = (value) => (isJsonObject(value) ? Object.keys(value).length : undefined);

function size(keyword: string, unit: string, measure: Measure): [string, Keyword] {
  const isLeast = keyword.startsWith("min");
  return [
    keyword,
    (operand, scope) => {
      const limit = count(operand, keyword, scope);
      return (value) => {
        const actual = measure(value);
        if (actual === undefined || (isLeast ? actual >= limit : actual <= limit)) return undefined;
        return mismatch(`expected at ${isLeast ? "least" : "most"} ${limit} ${unit}, found ${actual}`);
      };
    },
  ];
}

const pattern: Keyword = (operand, scope) => {
  const expression = regularExpression(operand, "pattern", scope);
  return (value) =>
    typeof value !== "string" || expression.test(value)
      ? undefined
      : mismatch(`expected a match of ${expression.source}, found ${brief(value)}`);
};

const required: Keyword = (operand, scope) => {
  const names = namesOf(operand, "required", scope);
  return (value) => (isJsonObject(value) ? missing(value, names) : undefined);
};

const dependentRequired: Keyword = (operand, scope) => {
  const rows = Object.entries(objectOf(operand, "dependentRequired", scope)).map(
    ([name, names]) => [name, namesOf(names, `dependentRequired/${name}`, scope)] as const,
  );
  return (value) => {
    if (!isJsonObject(value)) return undefined;
    for (const [name, names] of rows) {
      const lacking = Object.hasOwn(value, name) ? missing(value, names) : undefined;
      if (lacking !== undefined) return lacking;
    }
    return undefined;
  };
};

const properties: Keyword = (operand, scope) => {
  const rows = Object.entries(objectOf(operand, "properties", scope)).map(
    ([name, schema]) => [name, scope.inside(schema, `properties/${name}`)] as const,
  );
  return (value) => {
    if (!isJsonObject(value)) return undefined;
    for (const [name, check] of rows) {
      const found = Object.hasOwn(value, name) ? check(value[name] ?? null) : undefined;
      if (found !== undefined) return within(name, found);
    }
    return undefined;
  };
};

const patternProperties: Keyword = (operand, scope) => {
  const rows = Object.entries(objectOf(operand, "patternProperties", scope)).map(
    ([source, schema]) =>
      [
        regularExpression(source, "patternProperties", scope),
        scope.inside(schema, `patternProperties/${source}`),
      ] as const,
  );
  return eachMember((name, value) => {
    for (const [expression, check] of rows) {
      const found = expression.test(name) ? check(value) : undefined;
      if (found !== undefined) return found;
    }
    return undefined;
  });
};

const additionalProperties: Keyword = (operand, scope) => {
  const { properties: declared = {}, patternProperties: patterned = {} } = scope.schema;
  const expressions = Object.keys(objectOf(patterned, "patternProperties", scope)).map((source) =>
    regularExpression(source, "patternProperties", scope),
  );
  const check =
    operand === false ? () => mismatch("unexpected property") : scope.inside(operand, "additionalProperties");
  const isDeclared = (name: string): boolean =>
    (isJsonObject(declared) && Object.hasOwn(declared, name)) ||
    expressions.some((expression) => expression.test(name));
  return eachMember((name, value) => (isDeclared(name) ? undefined : check(value)));
};

const propertyNames: Keyword = (operand, scope) => {
  const check = scope.inside(operand, "propertyNames");
  return eachMember((name) => {
    const found = check(name);
    return found === undefined ? undefined : mismatch(`property name: ${found.reason}`);
  });
};

/** The schemas of the first items: `prefixItems`, or `items` as a list (draft 7). */
function tuple(keyword: "prefixItems" | "items"): Keyword {
  return (operand, scope) => {
    const checks = listOf(operand, keyword, scope).map((schema, index) =>
      scope.inside(schema, `${keyword}/${index}`),
    );
    return eachItem((value, index) => checks[index]?.(value));
  };
}

const itemsOrTuple: Keyword = (operand, scope) => {
  if (Array.isArray(operand)) return tuple("items")(operand, scope);
  const { prefixItems } = scope.schema;
  return restOfItems(Array.isArray(prefixItems) ? prefixItems.length : 0, scope.inside(operand, "items"));
};

const additionalItems: Keyword = (operand, scope) => {
  const { items: declared } = scope.schema;
  return Array.isArray(declared)
    ? restOfItems(declared.length, scope.inside(operand, "additionalItems"))
    : undefined;
};

function restOfItems(from: number, check: Check): Check {
  return eachItem((value, index) => (index < from ? undefined : check(value)));
}

const contains: Keyword = (operand, scope) => {
  const check = scope.inside(operand, "contains");
  const { minContains = 1, maxContains } = scope.schema;
  const least = count(minContains, "minContains", scope);
  const most =
    maxContains === undefined ? Number.POSITIVE_INFINITY : count(maxContains, "maxContains", scope);
  return (value) => {
    if (!Array.isArray(value)) return undefined;
    const fitting = value.filter((item: Json) => check(item) === undefined).length;
    if (fitting < least) return mismatch(`expected at least ${least} fitting items, found ${fitting}`);
    return fitting > most ? mismatch(`expected at most ${most} fitting items, found ${fitting}`) : undefined;
  };
};

const uniqueItems: Keyword = (operand) => {
  if (operand !== true) return undefined;
  return (value) => {
    if (!Array.isArray(value)) return undefined;
    const seen = new Map<string, number>();
    for (const [index, item] of value.entries()) {
      const text = canonicalJson(item);
      const earlier = seen.get(text);
      if (earlier !== undefined)
        return mismatch(`expected different items, found item ${index} equal to item ${earlier}`);
      seen.set(text, index);
    }
    return undefined;
  };
};

const allOf: Keyword = (operand, scope) => {
  const checks = alternatives(operand, "allOf", scope);
  return (value) => {
    for (const check of checks) {
      const found = check(value);
      if (found !== undefined) return found;
    }
    return undefined;
  };
};

const anyOf: Keyword = (operand, scope) => {
  const checks = alternatives(operand, "anyOf", scope);
  return (value) => (checks.some((check) => check(value) === undefined) ? undefined : closest(value, checks));
};

const oneOf: Keyword = (operand, scope) => {
  const checks = alternatives(operand, "oneOf", scope);
  return (value) => {
    const fitting = checks.filter((check) => check(value) === undefined).length;
    if (fitting === 1) return undefined;
    return fitting === 0
      ? closest(value, checks)
      : mismatch(`expected exactly one alternative to fit, found ${fitting}`);
  };
};

const not: Keyword = (operand, scope) => {
  const check = scope.same(operand, "not");
  return (value) =>
    check(value) === undefined
      ? mismatch("expected a value that does not fit the schema under `not`")
      : undefined;
};

const condition: Keyword = (operand, scope) => {
  const check = scope.same(operand, "if");
  const branch = (keyword: "then" | "else"): Check =>
    Object.hasOwn(scope.schema, keyword) ? scope.same(scope.schema[keyword], keyword) : () => undefined;
  const then = branch("then");
  const otherwise = branch("else");
  return (value) => (check(value) === undefined ? then(value) : otherwise(value));
};

/** All keywords that check something. Others are annotations and are ignored. */
export const KEYWORDS: ReadonlyMap<string, Keyword> = new Map<string, Keyword>([
  ["$ref", reference],
  ["type", type],
  ["enum", enumeration],
  ["const", constant],
  bound("minimum", "at least", (value, limit) => value >= limit),
  bound("maximum", "at most", (value, limit) => value <= limit),
  bound("exclusiveMinimum", "more than", (value, limit) => value > limit),
  bound("exclusiveMaximum", "less than", (value, limit) => value < limit),
  bound("multipleOf", "a multiple of", isMultiple),
  size("minLength", "characters", characters),
  size("maxLength", "characters", characters),
  ["pattern", pattern],
  ["required", required],
  ["dependentRequired", dependentRequired],
  ["properties", properties],
  ["patternProperties", patternProperties],
  ["additionalProperties", additionalProperties],
  ["propertyNames", propertyNames],
  size("minProperties", "properties", members),
  size("maxProperties", "properties", members),
  ["prefixItems", tuple("prefixItems")],
  ["items", itemsOrTuple],
  ["additionalItems", additionalItems],
  size("minItems", "items", items),
  size("maxItems", "items", items),
  ["uniqueItems", uniqueItems],
  ["contains", contains],
  ["allOf", allOf],
  ["anyOf", anyOf],
  ["oneOf", oneOf],
  ["not", not],
  ["if", condition],
]);

function alternatives(operand: Json, keyword: string, scope: KeywordScope): readonly Check[] {
  return listOf(operand, keyword, scope).map((schema, index) => scope.same(schema, `${keyword}/${index}`));
}

/** Of several mismatches, the one that came furthest into the value: most likely the alternative that was meant. */
function closest(value: Json, checks: readonly Check[]): Mismatch {
  const failures = checks.flatMap((check) => check(value) ?? []);
  const depth = (failure: Mismatch): number => failure.path.split("/").length;
  const deepest = failures.reduce<Mismatch | undefined>(
    (best, next) => (best !== undefined && depth(best) >= depth(next) ? best : next),
    undefined,
  );
  if (deepest === undefined) return mismatch("expected one of no alternatives");
  if (failures.length === 1) return deepest;
  if (deepest.path !== "")
    return { ...deepest, reason: `${deepest.reason} (none of ${failures.length} alternatives fits)` };
  const reasons = [...new Set(failures.map((failure) => failure.reason))];
  return mismatch(`none of ${failures.length} alternatives fits: ${reasons.join("; ")}`);
}

function eachMember(check: (name: string, value: Json) => Mismatch | undefined): Check {
  return (value) => {
    if (!isJsonObject(value)) return undefined;
    for (const name of Object.keys(value)) {
      const found = check(name, value[name] ?? null);
      if (found !== undefined) return within(name, found);
    }
    return undefined;
  };
}

function eachItem(check: (value: Json, index: number) => Mismatch | undefined): Check {
  return (value) => {
    if (!Array.isArray(value)) return undefined;
    for (let index = 0; index < value.length; index += 1) {
      const found = check(value[index], index);
      if (found !== undefined) return within(String(index), found);
    }
    return undefined;
  };
}

function within(segment: string, found: Mismatch): Mismatch {
  return {
    path: `/${segment.replaceAll("~", "~0").replaceAll("/", "~1")}${found.path}`,
    reason: found.reason,
  };
}

function missing(value: JsonObject, names: readonly string[]): Mismatch | undefined {
  const name = names.find((candidate) => !Object.hasOwn(value, candidate));
  return name === undefined ? undefined : mismatch(`missing required property ${JSON.stringify(name)}`);
}

function withArticle(name: string): string {
  if (name === "null") return name;
  return /^[aeio]/.test(name) ? `an ${name}` : `a ${name}`;
}

function found(value: Json): string {
  return typeof value === "number" ? `the number ${value}` : named(value);
}
