// Functions that run in every process are compiled with the file that they are in. An engine passes over functions when it
// loads a file, and reads each again when it is called first: that was near half the time of a process's first turn. What
// stands in parentheses it reads at once, because such functions are mostly called where they stand.

import { RolldownMagicString } from "rolldown";
import { parseAst } from "rolldown/parseAst";
import { Visitor } from "rolldown/utils";

/**
 * Puts functions in parentheses. A declaration becomes a constant at the top of its file, where declarations take effect.
 * Methods and asynchronous arrow functions stay as they are: there is no such way to write them.
 * @param {Record<string, readonly number[]>} called by file, where the functions begin
 * @returns {import("rolldown").Plugin}
 */
export function compileEarly(called) {
  return {
    name: "compile-early",
    renderChunk(code, { fileName }) {
      const starts = new Set(called[fileName]);
      if (starts.size === 0) return null;
      const program = parseAst(code);
      const top = program.body.find(({ type }) => type !== "ImportDeclaration")?.start ?? 0;
      const text = new RolldownMagicString(code);
      for (const node of program.body) {
        if (node.type !== "FunctionDeclaration" || !starts.has(node.start)) continue;
        text.prependRight(node.start, `const ${node.id?.name} = (`).appendLeft(node.end, ");\n");
        text.move(node.start, node.end, top);
      }
      const enclose = (/** @type {{ start: number; end: number; async: boolean }} */ node) => {
        if (starts.has(node.start) && !node.async)
          text.prependRight(node.start, "(").appendLeft(node.end, ")");
      };
      new Visitor({ ArrowFunctionExpression: enclose }).visit(program);
      return { code: text.toString(), map: text.generateMap({ hires: "boundary" }).toString() };
    },
  };
}
