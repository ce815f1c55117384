// Colours, few and only where somebody looks: on a terminal, unless NO_COLOR says otherwise.

export type Paint = (text: string) => string;

export interface Style {
  readonly bold: Paint;
  readonly dim: Paint;
  readonly red: Paint;
  readonly green: Paint;
  readonly yellow: Paint;
  readonly cyan: Paint;
}

export interface StyleChoice {
  readonly isTerminal: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
}

const CODES: { readonly [K in keyof Style]: readonly [number, number] } = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
};

/** FORCE_COLOR wins over NO_COLOR, which wins over what the output is. */
export function chooseStyle({ isTerminal, env }: StyleChoice): Style {
  return makeStyle(wantsColour(env) ?? (isTerminal && env.TERM !== "dumb"));
}

export function makeStyle(isColoured: boolean): Style {
  const paint = ([on, off]: readonly [number, number]): Paint =>
    isColoured ? (text) => (text === "" ? "" : `\x1b[${on}m${text}\x1b[${off}m`) : (text) => text;
  return {
    bold: paint(CODES.bold),
    dim: paint(CODES.dim),
    red: paint(CODES.red),
    green: paint(CODES.green),
    yellow: paint(CODES.yellow),
    cyan: paint(CODES.cyan),
  };
}

function wantsColour(env: StyleChoice["env"]): boolean | undefined {
  const { FORCE_COLOR, NO_COLOR } = env;
  if (FORCE_COLOR !== undefined && FORCE_COLOR !== "") return FORCE_COLOR !== "0" && FORCE_COLOR !== "false";
  return NO_COLOR !== undefined && NO_COLOR !== "" ? false : undefined;
}
