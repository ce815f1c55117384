// The model that was chosen, made: the two native wires, or Google's package when it is installed.

import { type AiSdkLanguageModel, MarlingError, type ModelOption } from "marling";
import type { Environment } from "./environment.ts";
import type { ModelChoice } from "./model-choice.ts";

const ASK_MS = 5_000;

export async function makeModel(
  choice: Exclude<ModelChoice, { kind: "demo" }>,
  env: Environment["env"],
): Promise<ModelOption> {
  if (choice.kind === "google") return googleModel(choice.model, env);
  const { anthropicModel, openaiModel } = await import("marling/models");
  if (choice.kind === "anthropic") {
    const baseUrl = env.ANTHROPIC_BASE_URL;
    const address = baseUrl === undefined || baseUrl === "" ? {} : { baseUrl };
    return anthropicModel({ model: choice.model, ...keyOf(env.ANTHROPIC_API_KEY), ...address });
  }
  const { baseUrl } = choice;
  const model = choice.model ?? (await firstModel(baseUrl ?? "", env.OPENAI_API_KEY));
  return openaiModel({ model, ...keyOf(env.OPENAI_API_KEY), ...(baseUrl === undefined ? {} : { baseUrl }) });
}

function keyOf(key: string | undefined): { readonly apiKey?: string } {
  return key === undefined || key.trim() === "" ? {} : { apiKey: key.trim() };
}

/** What a server at an address offers first. */
async function firstModel(baseUrl: string, key: string | undefined): Promise<string> {
  const address = `${baseUrl.replace(/\/+$/, "")}/models`;
  const refuse = (found: string): MarlingError =>
    new MarlingError(
      "provider_unavailable",
      `${address}: expected a list of models, found ${found}; name one with --model`,
    );
  const headers = key === undefined || key === "" ? {} : { authorization: `Bearer ${key}` };
  const answer = await fetch(address, { headers, signal: AbortSignal.timeout(ASK_MS) }).catch(
    (thrown: unknown) => {
      throw refuse(thrown instanceof Error ? thrown.message : String(thrown));
    },
  );
  const list = (await answer.json().catch(() => undefined)) as
    | { readonly data?: readonly { readonly id?: unknown }[] }
    | undefined;
  const id = list?.data?.[0]?.id;
  if (typeof id !== "string") throw refuse(answer.ok ? "none" : `status ${answer.status}`);
  return id;
}

/** A package that may not be there: its name is no import that a compiler follows. */
const GOOGLE: string = "@ai-sdk/google";

async function googleModel(model: string, env: Environment["env"]): Promise<AiSdkLanguageModel> {
  const found = (await import(GOOGLE).catch((cause: unknown) => {
    const message = `model google/${model}: expected the package ${GOOGLE}, found none; npm install ${GOOGLE}`;
    throw new MarlingError("provider_unavailable", message, { cause, details: { providerId: "google" } });
  })) as {
    createGoogleGenerativeAI(options: object): (model: string) => AiSdkLanguageModel;
  };
  return found.createGoogleGenerativeAI({ apiKey: env.GOOGLE_GENERATIVE_AI_API_KEY })(model);
}
