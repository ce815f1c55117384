import { createHmac } from "node:crypto";
import { type Clock, createRuntime, definePlugin } from "marling";
import { interval, webhook } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { say, scriptedModel } from "marling/testing";

// #region source
/** Says that pushes occur, and what is known of one. */
const repository = definePlugin({
  id: "repository",
  build: () => ({
    triggers: [
      {
        resourceType: "repository",
        alias: "repository",
        event: "pushed",
        payloadSchema: { type: "object", required: ["branch"], properties: { branch: { type: "string" } } },
      },
    ],
  }),
});
// #endregion

// #region triggers
export async function watchRepository(path: string, clock: Clock & { advance(ms: number): void }) {
  await using runtime = createRuntime({
    model: scriptedModel(() => say("Noted.")),
    plugins: [repository()],
    store: sqliteStore({ path }),
    clock,
  });
  const session = await runtime.session("watcher");
  const { triggers } = runtime;
  const about = { sessionId: session.id };
  await triggers.subscribe({ ...about, name: "pushes", source: "repository.pushed", input: "Review it." });
  await triggers.subscribe({ ...about, name: "hourly", ...interval(3_600_000), input: "Look around." });

  const receive = webhook({
    triggers,
    source: "repository.pushed",
    verify: { secret: "s3cret", header: "x-signature" },
    key: "x-delivery", // the same delivery, sent twice, is one turn
  });
  const body = JSON.stringify({ branch: "main" });
  const headers = { "x-delivery": "d-1", "x-signature": `sha256=${sign(body)}` };
  const answers = [await receive({ headers, body }), await receive({ headers, body })];
  const forged = await receive({ headers: { ...headers, "x-signature": sign("another") }, body });

  clock.advance(3 * 3_600_000 + 1_000); // three hours go by, and nobody looks before the third tick
  await runtime.recover(); // resolves when all that is due was delivered and its turns are over
  return { statuses: [...answers, forged].map(({ status }) => status), messages: session.read().messages };
}
// #endregion

function sign(body: string): string {
  return createHmac("sha256", "s3cret").update(body).digest("hex");
}
