// What a model of the AI SDK is called with. Both specifications agree on all of it but files.

import type { JsonObject } from "../../model/json.ts";
import type { CallParameters } from "../call-parameters.ts";
import type { PromptMessage, ProviderData, SystemMessage } from "../prompt-message.ts";

export interface CallOptions extends CallParameters {
  readonly prompt: readonly (SystemMessage | PromptMessage)[];
  readonly tools?: readonly {
    readonly type: "function";
    readonly name: string;
    readonly description: string;
    readonly inputSchema: JsonObject;
  }[];
  readonly toolChoice?: { readonly type: "auto" | "none" | "required" };
  readonly responseFormat?: { readonly type: "json"; readonly schema: JsonObject; readonly name: string };
  readonly providerOptions?: ProviderData;
  readonly headers?: Readonly<Record<string, string>>;
  readonly abortSignal: AbortSignal;
}
