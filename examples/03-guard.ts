// #region guard
import { definePlugin, defineTool, directive, toolFailure } from "marling";
import { z } from "zod";

/** Lets the model read notes, keeps it inside one folder, and counts what it was denied. */
export const guard = definePlugin({
  id: "guard",
  options: z.object({ root: z.string() }),
  build(ctx) {
    const denied = ctx.durable({ version: 1, initial: () => ({ count: 0 }) });
    const readNote = defineTool({
      name: "read_note",
      description: "Reads a note.",
      input: z.object({ path: z.string() }),
      replay: "safe",
      execute: ({ path }) => `the text of ${path}`,
    });
    return {
      tools: [readNote],
      prompt: () => ({ slot: "guidance", content: `Notes are under ${ctx.options.root}.` }),
      toolCalls: {
        before: ({ toolName, args }) => {
          const { path } = args as { path: string };
          if (toolName !== "read_note" || path.startsWith(`${ctx.options.root}/`)) return;
          denied.update(({ count }) => ({ count: count + 1 }));
          return directive.shortCircuitTool(
            toolFailure({ code: "outside_root", message: `${path} is outside the notes.` }),
          );
        },
      },
      operations: { queries: { "guard.count": { handler: () => denied.get().count } } },
    };
  },
});
// #endregion
