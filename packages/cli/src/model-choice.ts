// Which model a command uses: the one that was named, or the first that the environment has a key for.
//   MO1  what was named wins; a provider without its key is an error that says which variable is missing.
//   MO2  an OpenAI-compatible address needs no key, and takes names as they are, slashes included.
//   MO3  with nothing at hand it is the demo agent, which says that it is a script.

import { MarlingError } from "marling";
import type { Environment } from "./environment.ts";
import type { Settings } from "./settings.ts";

export type ModelChoice =
  | { readonly kind: "demo" }
  | { readonly kind: "anthropic"; readonly model: string; readonly why: string }
  | {
      readonly kind: "openai";
      /** Not known yet when only an address is: the server is asked. */
      readonly model: string | undefined;
      readonly baseUrl: string | undefined;
      readonly why: string;
    }
  | { readonly kind: "google"; readonly model: string; readonly why: string };

type Provider = Exclude<ModelChoice["kind"], "demo">;

const PROVIDERS: { readonly [P in Provider]: { readonly key: string; readonly model: string } } = {
  anthropic: { key: "ANTHROPIC_API_KEY", model: "claude-sonnet-5-5" },
  openai: { key: "OPENAI_API_KEY", model: "gpt-5.6" },
  google: { key: "GOOGLE_GENERATIVE_AI_API_KEY", model: "gemini-pro-latest" },
};

export function chooseModel(
  { model, baseUrl: given }: Pick<Settings, "model" | "baseUrl">,
  env: Environment["env"],
): ModelChoice {
  const baseUrl = given ?? nonBlank(env.OPENAI_BASE_URL);
  if (model !== undefined) return named(model, baseUrl, env);
  if (given === undefined) {
    const found = (Object.keys(PROVIDERS) as Provider[]).find((provider) => hasKey(provider, env));
    if (found === "openai")
      return { kind: found, model: PROVIDERS.openai.model, baseUrl, why: PROVIDERS.openai.key };
    if (found !== undefined) return { kind: found, model: PROVIDERS[found].model, why: PROVIDERS[found].key };
  }
  if (baseUrl === undefined) return { kind: "demo" };
  return { kind: "openai", model: undefined, baseUrl, why: addressName(given) };
}

/** The choice in words, for stderr and the top of a chat. */
export function describeChoice(choice: ModelChoice, id?: string): string {
  if (choice.kind === "demo")
    return "the demo agent, which is a script (set ANTHROPIC_API_KEY, OPENAI_API_KEY or --base-url for a model)";
  const address = choice.kind === "openai" && choice.baseUrl !== undefined ? ` at ${choice.baseUrl}` : "";
  const name = choice.model === undefined ? (id ?? choice.kind) : `${choice.kind}/${choice.model}`;
  return `${name}${address} (from ${choice.why})`;
}

function named(model: string, baseUrl: string | undefined, env: Environment["env"]): ModelChoice {
  if (model === "demo") return { kind: "demo" };
  const [provider = "", ...rest] = model.split("/");
  const name = rest.join("/");
  if (name !== "" && (provider === "anthropic" || provider === "google")) {
    needKey(provider, env);
    return { kind: provider, model: name, why: "--model" };
  }
  const isOpenAi = name !== "" && provider === "openai";
  if (baseUrl !== undefined)
    return { kind: "openai", model: isOpenAi ? name : model, baseUrl, why: "--model" };
  if (isOpenAi) {
    needKey("openai", env);
    return { kind: "openai", model: name, baseUrl: undefined, why: "--model" };
  }
  throw new MarlingError(
    "provider_unavailable",
    `model ${model}: expected demo, anthropic/<name>, openai/<name> or google/<name>, or any name with --base-url`,
    { details: { providerId: provider } },
  );
}

function needKey(provider: Provider, env: Environment["env"]): void {
  if (hasKey(provider, env)) return;
  const { key } = PROVIDERS[provider];
  throw new MarlingError(
    "provider_unconfigured",
    `model of ${provider}: expected ${key} in the environment, found none`,
    {
      details: { providerId: provider },
    },
  );
}

function hasKey(provider: Provider, env: Environment["env"]): boolean {
  return nonBlank(env[PROVIDERS[provider].key]) !== undefined;
}

function nonBlank(value: string | undefined): string | undefined {
  return value === undefined || value.trim() === "" ? undefined : value;
}

function addressName(given: string | undefined): string {
  return given === undefined ? "OPENAI_BASE_URL" : "--base-url";
}
