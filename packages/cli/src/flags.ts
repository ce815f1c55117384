// Every option of the command line, in one table: what it takes and what the help says of it.

export interface Flag {
  readonly type: "string" | "boolean";
  readonly short?: string;
  /** What stands for the value in the help. */
  readonly value?: string;
  readonly help: string;
}

export const FLAGS = {
  approve: {
    type: "string",
    value: "ask|all|none",
    help: "who decides about tools that change something: you (ask, default), nobody (all run), or none run",
  },
  as: { type: "string", value: "name", help: "the name of the new session" },
  at: {
    type: "string",
    value: "node",
    help: "the last node of the commit to fork at; by default the newest",
  },
  "base-url": {
    type: "string",
    value: "url",
    help: "an OpenAI-compatible server, such as Ollama, LM Studio or vLLM",
  },
  config: {
    type: "string",
    value: "file",
    help: "a config file instead of marling.config.json in this folder",
  },
  help: { type: "boolean", short: "h", help: "show this text" },
  instructions: { type: "string", value: "text", help: "what the agent is told to be" },
  json: { type: "boolean", help: "print JSON, one value per line" },
  "max-turns": { type: "string", value: "n", help: "model calls per turn" },
  model: {
    type: "string",
    short: "m",
    value: "provider/name",
    help: "the model: anthropic/..., openai/..., google/..., or demo",
  },
  output: { type: "string", short: "o", value: "file", help: "the page to write" },
  resume: { type: "boolean", help: "go on with a session: the one named after it, or the latest" },
  session: { type: "string", short: "s", value: "name", help: "the session; made when there is none" },
  store: { type: "string", value: "file", help: "where sessions are kept; .marling/marling.db by default" },
  trace: { type: "string", value: "file", help: "write what happens to this file, for `marling trace`" },
  version: { type: "boolean", help: "show the version" },
  yes: { type: "boolean", short: "y", help: "the same as --approve all" },
} as const;

export type FlagName = keyof typeof FLAGS;

/** What every command that talks to the agent takes. */
export const AGENT_FLAGS: readonly FlagName[] = [
  "model",
  "base-url",
  "instructions",
  "approve",
  "yes",
  "max-turns",
  "store",
  "trace",
  "config",
];

export type FlagValues = {
  readonly [N in FlagName]?: (typeof FLAGS)[N]["type"] extends "boolean" ? boolean : string;
};
