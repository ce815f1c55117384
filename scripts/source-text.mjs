// Reads TypeScript as text: enough to tell code from comments and strings, and to find imports.
// TypeScript 7 has no parser for scripts to call that is stable, and the checks that use this need no more.

/**
 * @typedef {"code" | "comment" | "string" | "template" | "regex"} PieceKind
 * @typedef {{ kind: PieceKind; start: number; end: number }} Piece
 *   A stretch of the text. A template's `${...}` parts are code, so one template may be several pieces.
 * @typedef {{ specifier: string; typeOnly: boolean; line: number }} Import
 */

/**
 * Cuts a source text into code, comments and literals, in order and without gaps.
 * @param {string} text
 * @returns {Piece[]}
 */
export function pieces(text) {
  /** @type {Piece[]} */
  const found = [];
  /** Depth of braces inside each open template substitution. @type {number[]} */
  const substitutions = [];
  let codeStart = 0;
  let at = 0;

  /** @param {PieceKind} kind @param {number} end */
  const take = (kind, end) => {
    if (at > codeStart) found.push({ kind: "code", start: codeStart, end: at });
    found.push({ kind, start: at, end });
    at = end;
    codeStart = end;
  };

  while (at < text.length) {
    const two = text.slice(at, at + 2);
    const one = text[at];
    if (two === "//") take("comment", endOr(text, text.indexOf("\n", at)));
    else if (two === "/*") take("comment", endOr(text, text.indexOf("*/", at + 2) + 2, 1));
    else if (one === '"' || one === "'") take("string", closing(text, at, one));
    else if (one === "`") {
      const end = templateEnd(text, at + 1);
      take("template", end);
      if (text[end - 1] === "{") substitutions.push(0);
    } else if (one === "}" && substitutions.at(-1) === 0) {
      substitutions.pop();
      const end = templateEnd(text, at + 1);
      take("template", end);
      if (text[end - 1] === "{") substitutions.push(0);
    } else if (one === "/" && regexMayStart(text, at, found.at(-1), codeStart))
      take("regex", regexEnd(text, at));
    else {
      const depth = substitutions.length - 1;
      if (depth >= 0 && one === "{") substitutions[depth] = (substitutions[depth] ?? 0) + 1;
      if (depth >= 0 && one === "}") substitutions[depth] = (substitutions[depth] ?? 0) - 1;
      at += 1;
    }
  }
  if (at > codeStart) found.push({ kind: "code", start: codeStart, end: at });
  return found;
}

/**
 * The text with every piece of the given kinds blanked; lines and columns stay where they are.
 * @param {string} text
 * @param {readonly PieceKind[]} kinds
 */
export function blank(text, kinds) {
  return pieces(text)
    .map(({ kind, start, end }) => {
      const piece = text.slice(start, end);
      return kinds.includes(kind) ? piece.replace(/[^\n]/g, " ") : piece;
    })
    .join("");
}

/** Code alone: comments and literals blanked. @param {string} text */
export function codeOf(text) {
  return blank(text, ["comment", "string", "template", "regex"]);
}

/**
 * What a source file imports or re-exports, in order.
 * @param {string} text
 * @returns {Import[]}
 */
export function importsOf(text) {
  const code = blank(text, ["comment", "template", "regex"]);
  const strings = new Set(
    pieces(text)
      .filter((piece) => piece.kind === "string")
      .map((piece) => piece.start),
  );
  const statement =
    /(?<![\w$.])(?:(?:import|export)\s+(type\s+)?(?:[\w$\s{},*]+?)\s*from\s*|import\s*\(?\s*)(["'])([^"'\n]+)\2/dg;
  /** @type {Import[]} */
  const found = [];
  for (const match of code.matchAll(statement)) {
    const quote = match.indices?.[2]?.[0];
    const specifier = match[3];
    if (quote === undefined || specifier === undefined || !strings.has(quote)) continue;
    const line = code.slice(0, match.index).split("\n").length;
    found.push({ specifier, typeOnly: match[1] !== undefined, line });
  }
  return found;
}

/**
 * The line number, counted from one, of an offset.
 * @param {string} text
 * @param {number} offset
 */
export function lineOf(text, offset) {
  return text.slice(0, offset).split("\n").length;
}

/** @param {string} text @param {number} index @param {number} [missing] what `index` is when nothing was found */
function endOr(text, index, missing = -1) {
  return index === missing ? text.length : index;
}

/** @param {string} text @param {number} start @param {string} quote */
function closing(text, start, quote) {
  for (let at = start + 1; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === quote) return at + 1;
    else if (text[at] === "\n") return at;
  }
  return text.length;
}

/** The end of a template's literal part: after the closing backquote or after the opening of a substitution.
 * @param {string} text @param {number} start */
function templateEnd(text, start) {
  for (let at = start; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === "`") return at + 1;
    else if (text[at] === "$" && text[at + 1] === "{") return at + 2;
  }
  return text.length;
}

/** A slash starts a regular expression unless it follows a value.
 * @param {string} text @param {number} at @param {Piece | undefined} previous @param {number} codeStart */
function regexMayStart(text, at, previous, codeStart) {
  const before = text.slice(codeStart, at).trimEnd();
  if (before === "") return previous === undefined || previous.kind === "comment";
  if (/(?<![\w$.])(?:return|typeof|case|in|of|do|else|void|await|yield|throw)$/.test(before)) return true;
  return !/[\w$)\]}"'`]$/.test(before);
}

/** @param {string} text @param {number} start */
function regexEnd(text, start) {
  let inClass = false;
  for (let at = start + 1; at < text.length; at += 1) {
    if (text[at] === "\n") return start + 1;
    if (text[at] === "\\") at += 1;
    else if (text[at] === "[") inClass = true;
    else if (text[at] === "]") inClass = false;
    else if (text[at] === "/" && !inClass) return at + 1;
  }
  return start + 1;
}
