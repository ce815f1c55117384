// The tour: a turn on SQLite is killed with SIGKILL in the middle of two tools, and finished by another process.
//   TO1  what ran is counted from files that the tools and the model wrote themselves, not from what marling says.
//   TO2  the folder is removed, and no process is left, however the tour ends.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { MarlingError } from "marling";
import type { OutputStream } from "../environment.ts";
import type { Style } from "../style.ts";

export type LifeMessage =
  | { readonly kind: "line"; readonly text: string }
  | { readonly kind: "began"; readonly name: string }
  | { readonly kind: "end"; readonly text: string; readonly revision: number; readonly outcome: string };

interface Done {
  readonly life: string;
  readonly what: string;
  readonly key: string;
}

const MIDDLE_MS = 200;
const MOST_MS = 30_000;

export async function tour(stdout: OutputStream, style: Style): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), "marling-tour-"));
  const say = (text: string): void => void stdout.write(`${text}\n`);
  try {
    say(style.bold("marling: a turn that is killed, and finished."));
    say(
      "The model is a script, so no key is needed. The store, the processes, the tools and the kill are real.\n",
    );
    say(`${style.bold("1")} A process takes on "Send parcel 7 to Ada." Its session is a SQLite file.`);
    const first = new Life(folder, "1", (text) => say(style.dim(`    ${text}`)));
    await first.reached((message) => isBegun(message, "print_label"));
    await first.reached((message) => isBegun(message, "tell_customer"));
    await sleep(MIDDLE_MS);
    say(`${style.bold("2")} Both tools are at work. kill -9 ${first.pid}.`);
    await first.kill();
    say(`${style.bold("3")} Another process opens the file. The turn goes on from what was recorded.`);
    const second = new Life(folder, "2", (text) => say(style.dim(`    ${text}`)));
    const end = await second.end();
    say(`${style.bold("4")} The turn is ${end.outcome}, in one commit (revision ${end.revision}):`);
    say(`    "${end.text}"\n`);
    const done = readDone(folder);
    say(table(done, style));
    return end.outcome === "finished" && isAsPromised(done);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A process of the tour, from its beginning to its end. */
class Life {
  readonly #child: ChildProcess;
  readonly #messages: LifeMessage[] = [];
  readonly #exit: Promise<unknown>;

  constructor(folder: string, life: string, show: (text: string) => void) {
    const program = new URL("./tour-life.js", import.meta.url);
    this.#child = fork(program, [folder, life], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
    this.#exit = once(this.#child, "exit");
    this.#child.on("message", (message) => {
      const told = message as LifeMessage; // tour-life.ts sends nothing else
      this.#messages.push(told);
      if (told.kind === "line") show(told.text);
      if (told.kind === "began") show(`${told.name} begins`);
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Waits until a message has come; the life ends with the tour when none does. */
  async reached<M extends LifeMessage>(is: (message: LifeMessage) => message is M): Promise<M> {
    const late = performance.now() + MOST_MS;
    for (;;) {
      const found = this.#messages.find(is);
      if (found !== undefined) return found;
      if (performance.now() > late || this.#child.exitCode !== null || this.#child.signalCode !== null) {
        await this.kill();
        throw new MarlingError("io_failed", "tour: expected its process to go on, found that it had ended");
      }
      await sleep(10);
    }
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exit;
  }

  async end(): Promise<Extract<LifeMessage, { kind: "end" }>> {
    const end = await this.reached((message) => message.kind === "end");
    await this.#exit;
    return end;
  }
}

function isBegun(message: LifeMessage, name: string): message is Extract<LifeMessage, { kind: "began" }> {
  return message.kind === "began" && message.name === name;
}

function readDone(folder: string): readonly Done[] {
  const file = join(folder, "done.jsonl");
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Done); // as tour-life.ts writes it
}

const ROWS: readonly (readonly [label: string, what: string, meaning: string])[] = [
  ["model call 1", "model call 1", "recorded, so not paid for twice"],
  ["weigh_parcel", "weigh_parcel ended", "finished before the kill, so not run again"],
  ["model call 2", "model call 2", "recorded, so not paid for twice"],
  ["print_label", "print_label ended", "idempotent: run again with the same key, finished once"],
  ["tell_customer", "tell_customer began", "unsafe: not run again; the model is told it is unknown"],
  ["model call 3", "model call 3", "made by the second process"],
];

function table(done: readonly Done[], style: Style): string {
  const times = (life: string, what: string): number =>
    done.filter((each) => each.life === life && each.what === what).length;
  const lines = ROWS.map(([label, what, meaning]) => {
    const [first, second] = [times("1", what), times("2", what)];
    const counts = `${String(first).padStart(5)}  ${String(second).padStart(6)}  ${String(first + second).padStart(5)}`;
    return `    ${label.padEnd(14)}${counts}   ${style.dim(meaning)}`;
  });
  return [`    ${style.bold(`${"what ran".padEnd(14)}first  second  total`)}`, ...lines].join("\n");
}

/** Everything once; the label's two attempts had one key. */
function isAsPromised(done: readonly Done[]): boolean {
  const keys = new Set(done.filter(({ what }) => what === "print_label began").map(({ key }) => key));
  return ROWS.every(([, what]) => done.filter((each) => each.what === what).length === 1) && keys.size === 1;
}
