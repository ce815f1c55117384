// A chat on a terminal: keys go in, rows come out, and one session at a time is behind it.
//   CH1  Enter sends, or steers the turn that runs; Tab queues; Esc cancels; the first Ctrl-C cancels, the second quits.
//   CH2  quitting waits for nothing: a turn that runs is in the store, and goes on when the session is resumed.

import type { ApprovalQuestion, Session, TurnEvent, TurnReport } from "marling";
import type { AskedQuestion } from "marling/tools";
import type { Agent } from "../agent.ts";
import { describeError } from "../describe-error.ts";
import type { Environment } from "../environment.ts";
import { type Key, type KeyName, KeyReader } from "../key-reader.ts";
import { LineEditor } from "../line-editor.ts";
import { plainText } from "../plain-text.ts";
import { type LiveRows, Screen } from "../screen.ts";
import { chooseStyle, type Style } from "../style.ts";
import { fit } from "../text-width.ts";
import { Transcript } from "../transcript.ts";
import { costOf, usageLine } from "../usage-line.ts";
import { bottomRows } from "./bottom-rows.ts";
import { CHAT_COMMANDS, messageText } from "./chat-commands.ts";
import { type ChatListener, ChatSession, type Deliver } from "./chat-session.ts";
import { promptRows } from "./prompt-rows.ts";

export interface ChatOptions {
  readonly environment: Environment;
  readonly agent: Agent;
  readonly session: Session;
  /** Opens the agent with another model. */
  openAgent(model: string): Promise<Agent>;
  /** A session is the chat's from now on. */
  onSession(name: string): void;
}

const RAW_ON = "\x1b[?2004h";
const RAW_OFF = "\x1b[?2004l";
const SPIN_MS = 100;
const TWICE_MS = 2_000;
const SHOWN_ON_RESUME = 4;

export class Chat {
  readonly #options: ChatOptions;
  readonly #style: Style;
  readonly #screen: Screen;
  readonly #transcript: Transcript;
  readonly #editor = new LineEditor();
  readonly #keys = new KeyReader((key) => this.#onKey(key));
  #agent: Agent;
  #chat: ChatSession;
  readonly #shownAsks = new Set<string>();
  #spin = 0;
  #spinner: NodeJS.Timeout | undefined;
  #interruptedAt = Number.NEGATIVE_INFINITY;
  #hint = "";
  #isOver = false;
  #leave: () => void = () => undefined;

  constructor(options: ChatOptions) {
    const { environment, agent, session } = options;
    const { stdout, env } = environment;
    this.#options = options;
    this.#style = chooseStyle({ isTerminal: true, env });
    this.#screen = new Screen(stdout, () => this.#live());
    this.#transcript = new Transcript({
      style: this.#style,
      width: () => this.#screen.width,
      print: (rows) => this.#screen.print(rows),
    });
    this.#agent = agent;
    this.#chat = new ChatSession(agent.runtime, session, this.#listener());
  }

  get agent(): Agent {
    return this.#agent;
  }

  get session(): Session {
    return this.#chat.session;
  }

  /** Runs until the user leaves; true when nothing was left running. */
  async run(): Promise<boolean> {
    const { stdin, stdout, onSignal } = this.#options.environment;
    const onData = (bytes: Buffer): void => this.#keys.push(bytes);
    const onResize = (): void => this.#screen.draw();
    const left = new Promise<void>((resolve) => {
      this.#leave = resolve;
    });
    stdin.setRawMode?.(true);
    stdout.write(RAW_ON);
    stdin.on("data", onData);
    stdout.on("resize", onResize);
    const offSignal = onSignal(() => this.quit());
    try {
      this.#open();
      await left;
    } finally {
      this.#isOver = true;
      offSignal();
      clearInterval(this.#spinner);
      this.#keys.close();
      stdin.off("data", onData);
      stdout.off("resize", onResize);
      this.#screen.close();
      stdout.write(RAW_OFF);
      stdin.setRawMode?.(false);
      stdin.pause();
    }
    const isIdle = this.#chat.running === undefined && this.#chat.lines.length === 0;
    await this.#chat.stop();
    return isIdle;
  }

  /** Says something that is not the model's. */
  say(text: string): void {
    this.#transcript.note(text);
  }

  table(pairs: readonly (readonly [left: string, right: string])[]): void {
    this.#transcript.table(pairs);
  }

  quit(): void {
    this.#leave();
  }

  clear(): void {
    this.#screen.clear();
  }

  async decide(decision: "allow" | "deny", isAlways: boolean): Promise<void> {
    const actor = this.#options.environment.env.USER ?? "user";
    const question = await this.#chat.decide(decision, actor);
    if (question === undefined) return this.say("Nothing asks for permission now.");
    this.#transcript.answered(question.callId);
    if (isAlways) this.#agent.allowAlways(question.toolName);
    const words = decision === "allow" ? (isAlways ? "allowed, from now on" : "allowed") : "denied";
    this.say(`${question.toolName}: ${words}`);
  }

  showHistory(most: number): void {
    const { messages } = this.session.read();
    for (const message of messages.slice(-most)) {
      if (message.role === "user") this.#transcript.user(messageText(message));
      else if (message.role === "assistant" && messageText(message) !== "")
        this.#transcript.text(messageText(message));
    }
    if (messages.length === 0) this.say("Nothing was said so far.");
  }

  async plan(argument: string): Promise<void> {
    this.say(await this.#agent.plan(this.session, argument));
  }

  async fork(name: string): Promise<void> {
    const as = name === "" ? `${this.session.id}-fork-${this.session.read().revision}` : name;
    const session = await this.#agent.runtime.sessions.fork(this.session.id, { as });
    await this.#follow(this.#agent, session);
    this.say(`This is ${as} now, a fork.`);
  }

  async switchTo(name: string): Promise<void> {
    if (name === "" || !(await this.#agent.runtime.sessions.exists(name)))
      return this.say(name === "" ? "Which one? /sessions lists them." : `There is no session ${name}.`);
    await this.#follow(this.#agent, await this.#agent.open(name));
    this.showHistory(SHOWN_ON_RESUME);
  }

  /** Another model means another runtime; the session is in the store. */
  async changeModel(model: string): Promise<void> {
    if (this.#chat.running !== undefined) return this.say("A turn runs; change the model when it is over.");
    const { id } = this.session;
    const agent = await this.#options.openAgent(model);
    const before = this.#agent;
    await this.#follow(agent, await agent.open(id));
    await before.close();
    this.say(`The model is ${agent.model} from now on.`);
  }

  async #follow(agent: Agent, session: Session): Promise<void> {
    await this.#chat.stop();
    this.#agent = agent;
    this.#chat = new ChatSession(agent.runtime, session, this.#listener());
    this.#options.onSession(session.id);
    this.#begin();
    this.#screen.refresh();
  }

  #open(): void {
    const { turnIndex } = this.session.read();
    const style = this.#style;
    this.#screen.print([
      `${style.bold("marling")} ${style.dim(fit(this.#agent.model, this.#screen.width - 9))}`,
      style.dim(
        fit(
          `session ${this.session.id}${turnIndex > 0 ? `, ${turnIndex} turns` : ""} · /help`,
          this.#screen.width,
        ),
      ),
      "",
    ]);
    if (turnIndex > 0) this.showHistory(SHOWN_ON_RESUME);
    this.#begin();
    this.#screen.draw();
  }

  #begin(): void {
    this.#agent.asks.listen(() => this.#showAsks());
    this.#chat.start();
  }

  #listener(): ChatListener {
    return {
      said: (text, remark) => {
        this.#transcript.user(text, remark);
        this.#showAsks();
      },
      event: (event: TurnEvent) => this.#transcript.event(event),
      asked: ({ toolName, args, reason }: ApprovalQuestion) =>
        this.#transcript.question(toolName, args, reason),
      ended: (report, elapsedMs) => this.#ended(report, elapsedMs),
      moved: () => this.say("Another process has worked on this session; /history shows it as it is now."),
      failed: (thrown) => this.#failed(thrown),
      changed: () => this.#changed(),
    };
  }

  #ended(report: TurnReport | undefined, elapsedMs: number): void {
    for (const asked of this.#agent.asks.of(this.session.id)) this.#agent.asks.forget(asked);
    this.#transcript.end();
    if (report === undefined) return;
    const { outcome } = report;
    if (outcome.kind === "stopped") {
      const { reason, message } = outcome;
      const isCancel = reason === "cancelled";
      const words = isCancel
        ? "cancelled"
        : `stopped: ${reason}${message === undefined ? "" : `: ${message}`}`;
      this.#transcript.note(words, isCancel ? this.#style.yellow : this.#style.red);
    }
    this.#transcript.usage(usageLine(costOf(report, elapsedMs)));
  }

  #failed(thrown: unknown): void {
    if (this.#isOver) return;
    this.#transcript.note(describeError(thrown, this.#style).trimEnd(), (text) => text);
  }

  #changed(): void {
    const isRunning = this.#chat.running !== undefined;
    if (isRunning && this.#spinner === undefined)
      this.#spinner = setInterval(() => {
        this.#spin += 1;
        this.#screen.refresh();
      }, SPIN_MS);
    if (!isRunning) {
      clearInterval(this.#spinner);
      this.#spinner = undefined;
    }
    this.#screen.refresh();
  }

  #onKey(key: Key): void {
    this.#hint = "";
    if (key.kind === "text") this.#editor.insert(key.text);
    else if (key.kind === "paste") this.#editor.insert(pasted(key.text));
    else this.#onNamedKey(key.name);
    this.#screen.refresh();
  }

  #onNamedKey(name: KeyName): void {
    const act = this.#actions[name];
    if (act === undefined) this.#editor.apply(name);
    else act();
  }

  /** Keys that do more than edit the line. */
  readonly #actions: { readonly [N in KeyName]?: () => void } = {
    enter: () => this.#enter("active_turn"),
    tab: () => this.#enter("next_turn"),
    escape: () => this.#escape(),
    interrupt: () => this.#interrupt(),
    redraw: () => this.clear(),
    end_of_input: () => (this.#editor.isEmpty ? this.quit() : void this.#editor.apply("delete")),
    up: () => this.#up(),
  };

  #up(): void {
    if (this.#editor.isEmpty && this.#chat.lines.length > 0) this.#do(() => this.#takeBack());
    else this.#editor.apply("up");
  }

  async #takeBack(): Promise<void> {
    const text = await this.#chat.takeBack();
    if (text !== undefined) this.#editor.set(text);
  }

  #enter(deliver: Deliver): void {
    const text = this.#editor.take().trim();
    if (text === "") return;
    if (text.startsWith("/")) return void this.#command(text);
    const asked = this.#openAsk();
    if (asked !== undefined) return void this.#do(() => this.#answer(asked, text));
    const answer = this.#chat.questions.length > 0 ? ANSWERS[text.toLowerCase()] : undefined;
    if (answer !== undefined) return void this.#do(() => this.decide(answer.decision, answer.isAlways));
    this.#do(() => this.#chat.submit(text, deliver));
  }

  /** What the model waits to be told, when nothing else has to be decided first. */
  #openAsk(): AskedQuestion | undefined {
    if (this.#chat.running === undefined || this.#chat.questions.length > 0) return undefined;
    return this.#agent.asks.of(this.session.id)[0];
  }

  async #answer(asked: AskedQuestion, text: string): Promise<void> {
    const wrong = await this.#agent.asks.answer(this.#agent.runtime, asked, text);
    this.say(wrong ?? `you answered: ${text}`);
    if (wrong === undefined) this.#transcript.answered(asked.callId);
  }

  /** Shows what is asked and was not shown yet. */
  #showAsks(): void {
    for (const asked of this.#agent.asks.of(this.session.id)) {
      if (this.#shownAsks.has(asked.key)) continue;
      this.#shownAsks.add(asked.key);
      this.#transcript.ask(asked.question, asked.choices ?? []);
    }
    this.#screen.refresh();
  }

  #command(text: string): void {
    const [word = "", ...rest] = text.slice(1).split(/\s+/);
    const command = Object.hasOwn(CHAT_COMMANDS, word) ? CHAT_COMMANDS[word] : undefined;
    if (command === undefined) return void this.say(`There is no /${word}; /help lists what there is.`);
    this.#do(async () => command.run(this, rest.join(" ")));
  }

  #escape(): void {
    if (this.#chat.running !== undefined) return void this.#do(() => this.#chat.cancel());
    this.#editor.set("");
  }

  #interrupt(): void {
    const now = performance.now();
    if (now - this.#interruptedAt < TWICE_MS) return void this.quit();
    this.#interruptedAt = now;
    this.#hint = "Ctrl-C again quits";
    if (this.#chat.running !== undefined) return void this.#do(() => this.#chat.cancel());
    this.#editor.set("");
  }

  /** What goes wrong is said in the chat. */
  #do(action: () => Promise<void>): void {
    action().then(
      () => this.#screen.refresh(),
      (thrown: unknown) => this.#failed(thrown),
    );
  }

  #live(): LiveRows {
    const { width, height } = this.#screen;
    const { lines, questions, running } = this.#chat;
    const bottom = { lines, running, question: questions[0], spin: this.#spin };
    const rows = [...this.#transcript.live(), "", ...bottomRows(bottom, width, this.#style)];
    const above = rows.slice(-Math.max(1, height - 4));
    const prompt = promptRows(
      { text: this.#editor.text, beforeCursor: this.#editor.beforeCursor, placeholder: this.#placeholder() },
      { width, most: Math.max(1, Math.min(8, height - above.length - 1)), style: this.#style },
    );
    return {
      rows: [...above, ...prompt.rows],
      cursor: { row: above.length + prompt.cursor.row, column: prompt.cursor.column },
    };
  }

  #placeholder(): string {
    if (this.#hint !== "") return this.#hint;
    if (this.#chat.questions.length > 0) return "y, a or n";
    if (this.#openAsk() !== undefined) return "your answer";
    return this.#chat.running === undefined ? "say something, or /help" : "";
  }
}

/** What was pasted, with line ends of one kind and nothing that a terminal obeys; tabs are kept. */
function pasted(text: string): string {
  return text.replaceAll(/\r\n?/g, "\n").split("\t").map(plainText).join("\t");
}

const ANSWERS: Readonly<Record<string, { readonly decision: "allow" | "deny"; readonly isAlways: boolean }>> =
  {
    y: { decision: "allow", isAlways: false },
    yes: { decision: "allow", isAlways: false },
    a: { decision: "allow", isAlways: true },
    always: { decision: "allow", isAlways: true },
    n: { decision: "deny", isAlways: false },
    no: { decision: "deny", isAlways: false },
  };
