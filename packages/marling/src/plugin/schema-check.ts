import { isPromise } from "../base/deferred.ts";
import { MarlingError } from "../base/errors.ts";
import type { Json } from "../model/json.ts";
import type { Schema, ValidatedArgs } from "../tool/contract.ts";
import { type CompiledSchema, compileSchema } from "../tool/schema.ts";

const compiled = new WeakMap<object, CompiledSchema>();

/** Compiles a schema once, however many sessions are built with it. */
export function compileOnce(schema: Schema, where: string): CompiledSchema {
  const known = compiled.get(schema);
  if (known !== undefined) return known;
  const made = compileSchema(schema, where);
  compiled.set(schema, made);
  return made;
}

/** A schema as a synchronous check. Throws `invalid_schema` for one that checks asynchronously, when it does. */
export function schemaCheck(schema: Schema, where: string): (value: unknown) => ValidatedArgs {
  const { validate } = compileOnce(schema, where);
  return (value) => {
    // A Standard Schema checks whatever it is given; only JSON Schemas expect JSON, and they get it from decoders.
    const result = validate(value as Json);
    if (!isPromise(result)) return result;
    result.then(undefined, () => {});
    throw new MarlingError(
      "invalid_schema",
      `${where}: expected a schema that checks synchronously, found one that returns a promise`,
      {
        details: { where },
      },
    );
  };
}
