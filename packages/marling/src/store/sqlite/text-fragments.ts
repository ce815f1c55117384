// Pieces of JSON that nearly every turn writes, each kept as one or two characters that JSON text never has.
//   TF1  this table is part of the format: a piece keeps its place for ever, and a new one needs a new version of the
//        store, because texts are also looked up by what they are stored as.
//   TF2  where the values of the kernel have another shape than the pieces say, texts are longer, never wrong.

/** What stands for the id of the session that a text belongs to. */
export const SESSION_MARK = "\u0001";

const TURN = `${SESSION_MARK}:turn:`;
const NODE = `"n_${SESSION_MARK}/turn:${TURN}`;

/** The first of them have a mark of one character. */
const FRAGMENTS: readonly string[] = [
  // Nodes.
  `{"kind":"message","message":{"id":"m_${SESSION_MARK}:input:`,
  '","role":"user","parts":[{"kind":"text","text":"',
  '","role":"assistant","parts":[{"kind":"prose","text":"',
  '","role":"assistant","parts":[{"kind":"tool_call","callId":"',
  '","role":"tool","parts":[{"kind":"tool_result","callId":"',
  `]},"id":${NODE}`,
  `","parentId":${NODE}`,
  '","generation":',
  `,"frameId":"${SESSION_MARK}:frame:initial"}`,
  `,"frameId":"${SESSION_MARK}:frame:`,
  '},{"kind":"tool_call","callId":"',
  '","name":"',
  '","args":',
  '","text":"',
  // Usage and calls.
  ',"usage":{"input":',
  ',"output":',
  ',"cacheRead":0,"cacheWrite":0,"reasoning":0}',
  ',"cacheRead":',
  ',"cacheWrite":',
  ',"reasoning":',
  '{"round":',
  ',"attempt":1,"model":"',
  '","outcome":"completed","finish":"',
  '{"callId":"',
  ',"output":{"outcome":{"kind":"success","value":',
  '}},"durationMs":',
  // Reports.
  '"}},"report":{"outcome":{"kind":"finished","by":"message","text":"',
  `","turnId":"${TURN}`,
  '","revision":',
  ',"childUsage":[],"toolCalls":[',
  '],"modelCalls":[',
  '],"issues":[]}}',
  '{"submitted":{"input":{"text":"',
  '{"input":{"text":"',
  // What a commit changed.
  `{"once":{"operation":"turn:${TURN}`,
  '","digest":"',
  '"},"head":{"set":{"turnIndex":',
  '},"lists":{"ledger":[1,[0,{"source":"turn","model":"',
  '}]]}},"inputs":',
  // Journals, which were shortened before.
  '{"value":{"result":{"kind":"response","response":{"parts":[{"kind":"',
  'tool_call","callId":"',
  '"}],"usage":{"input":',
  ',"finish":"',
  '"}},"calls":[',
  '{"value":{"output":{"outcome":{"kind":"success","value":',
  '"},"left":{}',
  '},"left":{}',
  ',"asked":{"model":"',
  '","messages":"',
  `["${TURN}`,
  '","done"]',
  '","started"]',
];

/** Marks of one character; behind the last one a second character tells the others apart. */
const FIRST = 2;
const LAST = 31;
const FIRST_SECOND = "A".charCodeAt(0);

const markOf = (index: number): string =>
  FIRST + index < LAST
    ? String.fromCharCode(FIRST + index)
    : String.fromCharCode(LAST, FIRST_SECOND + index - (LAST - FIRST));

const MARKS: ReadonlyMap<string, string> = new Map(FRAGMENTS.map((piece, index) => [piece, markOf(index)]));
const PIECES: ReadonlyMap<string, string> = new Map(FRAGMENTS.map((piece, index) => [markOf(index), piece]));
/** Of pieces that begin alike the longest is taken. */
const ANY_PIECE = new RegExp(
  FRAGMENTS.toSorted((one, other) => other.length - one.length)
    .map(escaped)
    .join("|"),
  "g",
);
const ANY_MARK = new RegExp(
  `[${SESSION_MARK}-${String.fromCharCode(LAST - 1)}]|${String.fromCharCode(LAST)}.`,
  "g",
);

/** A text with marks in the place of pieces. It has the mark of its session already, and no other. */
export function packFragments(text: string): string {
  return text.replace(ANY_PIECE, (piece) => MARKS.get(piece) ?? piece);
}

/** The text that was packed, with the pieces of a session in the place of marks; without them its mark stays. */
export function unpackFragments(text: string, pieces: ReadonlyMap<string, string> = PIECES): string {
  return text.replace(ANY_MARK, (mark) => pieces.get(mark) ?? mark);
}

/** What marks stand for in a session whose id is this text. */
export function piecesOf(id: string): ReadonlyMap<string, string> {
  const pieces = Array.from(PIECES, ([mark, piece]): [string, string] => [
    mark,
    piece.replaceAll(SESSION_MARK, () => id),
  ]);
  return new Map([[SESSION_MARK, id], ...pieces]);
}

function escaped(literal: string): string {
  return literal.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}
