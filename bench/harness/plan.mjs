// What the model of the benchmark is asked to do. A request says so itself, so that the server keeps nothing: the plan is
// in the name of the model, the session and the turn are in the user's text, the round is in the ids of the calls.

/** Rounds that call tools, calls in each, then the chunks of the answer and their width; paced is one write per chunk. */
const DEFAULT_PLAN = { rounds: 0, calls: 1, chunks: 64, width: 16, isPaced: false };

export const planOf = (plan) => ({ ...DEFAULT_PLAN, ...plan });

export function modelName(plan) {
  const { rounds, calls, chunks, width, isPaced } = planOf(plan);
  return `bench_${rounds}_${calls}_${chunks}_${width}_${isPaced ? 1 : 0}`;
}

export function readPlan(name) {
  const found = /^bench_(\d+)_(\d+)_(\d+)_(\d+)_([01])$/.exec(name);
  if (found === null) throw new Error(`model: expected a name that modelName() made, found ${name}`);
  const [rounds, calls, chunks, width, paced] = found.slice(1).map(Number);
  return { rounds, calls, chunks, width, isPaced: paced === 1 };
}

const WORDS =
  "a turn adds what is new and leaves alone what was there so that its price stays the price of one turn ";

/** The text of one chunk of the answer, the same in every run. */
export function chunkText(index, width) {
  const start = (index * 11) % WORDS.length;
  return WORDS.repeat(Math.ceil((start + width) / WORDS.length))
    .slice(start)
    .slice(0, width);
}

/** The whole answer, against which every adapter's is held. */
export function answerText(plan) {
  const { chunks, width } = planOf(plan);
  return Array.from({ length: chunks }, (_, index) => chunkText(index, width)).join("");
}

/** What the user says in a turn: about 120 characters, with a mark that the server finds from the end of the request. */
export function userText(session, turn) {
  return `{{${session}/${turn}}} Work out the sums that are still open, one after the other, and then tell me in plain words what came out.`;
}

export const USER_MARK = /^\{\{([\w-]+)\/(\d+)\}\}/;

/** The ids of the calls of a turn begin with this, and go on with the round and the place in it. */
export const callPrefix = (session, turn) => `add-${session}-${turn}-`;

/** No two calls of a turn have the same arguments, so that a repeated one can be told from a new one. */
export const callArgs = (round, place) => ({ a: round, b: place });
