// --check: every adapter does the whole work. Three turns with tools on a server that parses and checks every request.

const PLAN = { rounds: 2, calls: 3, chunks: 32 };

export async function check(context) {
  const { server } = context.bench;
  let bad = 0;
  for (const adapter of context.adapters) {
    await server.reset();
    const found = await context.withStore(adapter, (dir) =>
      context.bench.work(adapter, "check", { plan: PLAN, dir }),
    );
    const wrong = found.error ?? complaint(found.ok.deltas, (await server.seen()).checked);
    if (wrong !== undefined) bad += 1;
    context.print(wrong === undefined ? `ok      ${adapter}` : `FAILED  ${adapter}: ${wrong}`);
  }
  context.print(`\n${context.adapters.length - bad} passed, ${bad} failed`);
  return bad === 0;
}

/** The last request of the third turn holds everything that was said and called before it. */
function complaint(deltas, seen) {
  if (seen === undefined) return "the server has seen nothing of it";
  if (seen.wrong.length > 0) return seen.wrong.join("; ");
  if (seen.users !== 3) return `expected 3 messages of the user in the last request, found ${seen.users}`;
  if (seen.assistants !== 8) return `expected 8 messages of the assistant, found ${seen.assistants}`;
  if (seen.calls !== 18) return `expected 18 calls, found ${seen.calls}`;
  if (deltas.some((count) => count !== PLAN.chunks))
    return `expected ${PLAN.chunks} deltas a turn, found ${deltas}`;
  return undefined;
}
