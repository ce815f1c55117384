import type { CrashScenario } from "./scenario.ts";

/** The scenario that a module exports. */
export async function loadScenario(url: string): Promise<CrashScenario> {
  const { scenario } = (await import(/* @vite-ignore */ url)) as { readonly scenario?: CrashScenario };
  if (typeof scenario?.answer === "function" && typeof scenario.run === "function") return scenario;
  throw new Error(
    `crash test: expected ${url} to export a scenario with answer and run, found ${typeof scenario}`,
  );
}
