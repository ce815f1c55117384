import { MarlingError } from "../../src/base/errors.ts";

/** The code and the message of what a call throws; fails when it throws nothing or something else. */
export function refusal(call: () => unknown): { readonly code: string; readonly message: string } {
  let returned: unknown;
  try {
    returned = call();
  } catch (thrown) {
    if (!MarlingError.is(thrown)) throw thrown;
    return { code: thrown.code, message: thrown.message };
  }
  throw new Error(`expected a refusal, got ${String(returned)}`);
}
