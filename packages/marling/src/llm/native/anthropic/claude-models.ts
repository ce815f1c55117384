// What has to be known of a Claude model before it is asked. First match; names that are not listed are newer.

export interface ClaudeModel {
  /** The most that an answer may have: the wire wants a limit with every request. */
  readonly maxOutputTokens: number;
  /** Whether answers can be held to a schema. */
  readonly followsSchema: boolean;
  /** How thinking is asked for: with a budget of tokens, or by effort. */
  readonly thinking: "none" | "budget" | "effort";
  /** Whether temperature and its like are taken. */
  readonly isSampled: boolean;
}

const OLD: ClaudeModel = {
  maxOutputTokens: 4_096,
  followsSchema: false,
  thinking: "none",
  isSampled: true,
};

const MODELS: readonly (readonly [name: RegExp, model: ClaudeModel])[] = [
  [/claude-3-7/, { ...OLD, maxOutputTokens: 64_000, thinking: "budget" }],
  [/claude-3-5/, { ...OLD, maxOutputTokens: 8_192 }],
  [/claude-(?:3|2|v2|instant)/, OLD],
  [/claude-opus-4-1/, { ...OLD, maxOutputTokens: 32_000, followsSchema: true, thinking: "budget" }],
  [/claude-[a-z]+-4-5/, { ...OLD, maxOutputTokens: 64_000, followsSchema: true, thinking: "budget" }],
  [/claude-[a-z]+-4-6/, { ...OLD, maxOutputTokens: 128_000, followsSchema: true, thinking: "effort" }],
  [
    /claude-[a-z]+-4-[7-9]/,
    { maxOutputTokens: 128_000, followsSchema: true, thinking: "effort", isSampled: false },
  ],
  [/claude-opus-4/, { ...OLD, maxOutputTokens: 32_000, thinking: "budget" }],
  [/claude-sonnet-4/, { ...OLD, maxOutputTokens: 64_000, thinking: "budget" }],
  [/claude-/, { maxOutputTokens: 64_000, followsSchema: true, thinking: "effort", isSampled: false }],
];

/** Models of others that are spoken to in the same way. */
const OTHER: ClaudeModel = { ...OLD, maxOutputTokens: 8_192, thinking: "budget" };

export function claudeModel(name: string): ClaudeModel {
  return MODELS.find(([pattern]) => pattern.test(name))?.[1] ?? OTHER;
}
