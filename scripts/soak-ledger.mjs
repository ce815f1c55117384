// The ledger of a world: what happened outside, one line each, written by whoever did it before anything else happens.
// Lines are appended whole and synced, so that they survive the process that wrote them.

import { closeSync, fsyncSync, openSync, readFileSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";

/**
 * @typedef {{ at: number, life: string, kind: string, [member: string]: any }} Entry
 * @typedef {{ write(kind: string, members?: object): void, close(): void }} Ledger
 */

/** @param {string} folder */
export const ledgerPath = (folder) => join(folder, "ledger.jsonl");

/** @param {string} folder @param {string} life which process, in which of its lives @returns {Ledger} */
export function openLedger(folder, life) {
  const file = openSync(ledgerPath(folder), "a");
  return {
    write(kind, members = {}) {
      writeSync(file, `${JSON.stringify({ at: Date.now(), life, kind, ...members })}\n`);
      fsyncSync(file);
    },
    close: () => closeSync(file),
  };
}

/** All entries so far, in the order in which they were written. @param {string} folder @returns {Entry[]} */
export function readLedger(folder) {
  let text = "";
  try {
    text = readFileSync(ledgerPath(folder), "utf8");
  } catch {
    return []; // nobody wrote anything
  }
  const lines = text.split("\n").slice(0, -1); // the last one is empty, or not yet whole
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line));
}

/** Reads what was added since it was last asked. @param {string} folder @returns {() => Entry[]} */
export function followLedger(folder) {
  const file = openSync(ledgerPath(folder), "a+");
  const buffer = Buffer.alloc(1 << 16);
  let [position, rest] = [0, ""];
  return () => {
    for (let read = readSync(file, buffer, 0, buffer.length, position); read > 0; ) {
      position += read;
      rest += buffer.toString("latin1", 0, read); // entries are ASCII
      read = readSync(file, buffer, 0, buffer.length, position);
    }
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    return lines.filter((line) => line !== "").map((line) => JSON.parse(line));
  };
}
