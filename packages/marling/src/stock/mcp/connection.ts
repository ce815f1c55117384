// The connection to one server: it is made when somebody needs it, made again when it breaks, and remembers what the server
// offered.
//   MC20  there is at most one connection to a server; attempts are shared by everybody who waits for it.
//   MC21  a connection that breaks, or cannot be made, is tried again after a delay that grows, a bounded number of times;
//         after that when a turn, a call or the host asks for it.
//   MC22  what a server offered stays known while it is down: its list is replaced by another list, never by nothing.
//   MC23  calls that are open when a connection breaks fail, and are not sent again.
//   MC24  a list that changed is read again; of changes that come together the last one is read.
//   MC25  the client offers no sampling, no elicitation and no roots.

import type { Client, JsonSchemaValidator, Transport } from "@modelcontextprotocol/client";
import { MarlingError } from "../../index.ts";
import { type Backoff, backoffDelay } from "./backoff.ts";
import { type ClientLibrary, loadClientLibrary } from "./client-library.ts";
import { httpTransport } from "./http-transport.ts";
import type { McpOptions, McpSettings } from "./options.ts";
import { Redaction } from "./redaction.ts";
import { StderrTail } from "./stderr-tail.ts";
import { StdioTransport } from "./stdio-transport.ts";
import { readToolList, type ToolList } from "./tool-contracts.ts";

export type ConnectionState = "idle" | "connecting" | "ready" | "down";

export interface ConnectionOptions {
  readonly settings: McpSettings;
  readonly backoff: Backoff;
  readonly clock: NonNullable<McpOptions["clock"]>;
  readonly random: () => number;
  /** Loads the library, for tests. */
  readonly load?: () => Promise<ClientLibrary>;
  /** Told when the state or the list of tools moved. */
  onMoved(): void;
}

/** One connection that was made. */
interface Link {
  readonly client: Client;
  readonly transport: Transport;
  readonly since: number;
}

/** How long a connection has to hold before earlier failures are forgotten. */
const STABLE_MS = 10_000;
const PING_TIMEOUT_MS = 5_000;
const VERSION = "1";

export class McpConnection {
  readonly name: string;
  readonly settings: McpSettings;
  readonly redaction: Redaction;
  readonly #options: ConnectionOptions;
  readonly #stderr = new StderrTail();
  #state: ConnectionState = "idle";
  #reason: string | undefined;
  #fault: MarlingError | undefined;
  #link: Link | undefined;
  #list: ToolList | undefined;
  #instructions: string | undefined;
  #attempt: Promise<void> | undefined;
  #abort: AbortController | undefined;
  #failures = 0;
  #nextAttemptAt: number | undefined;
  #cancelTimer: (() => void) | undefined;
  #refreshing: Promise<void> | undefined;
  #isStale = false;
  #isPinging = false;
  #closing: Promise<void> | undefined;
  readonly #ending = new Set<Promise<void>>();

  constructor(name: string, options: ConnectionOptions) {
    this.name = name;
    this.settings = options.settings;
    this.#options = options;
    this.redaction = new Redaction(options.settings.target);
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** Why it is down. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** What the host has to set right before any attempt can succeed. */
  get fault(): MarlingError | undefined {
    return this.#fault;
  }

  get nextAttemptAt(): number | undefined {
    return this.#nextAttemptAt;
  }

  get failures(): number {
    return this.#failures;
  }

  /** What the server offered when it was last asked. */
  get list(): ToolList | undefined {
    return this.#list;
  }

  get instructions(): string | undefined {
    return this.#instructions;
  }

  get client(): Client | undefined {
    return this.#state === "ready" ? this.#link?.client : undefined;
  }

  get pid(): number | undefined {
    const transport = this.#link?.transport;
    return transport instanceof StdioTransport ? transport.pid : undefined;
  }

  get stderr(): string {
    return this.redaction.clean(this.#stderr.text);
  }

  /** Connects unless it is connected. Resolves when that has come to something; never rejects. */
  connect(): Promise<void> {
    if (this.#closing !== undefined) return this.#closing.then(() => this.connect());
    if (this.#state === "ready") return Promise.resolve();
    this.#attempt ??= this.#connect().finally(() => {
      this.#attempt = undefined;
    });
    return this.#attempt;
  }

  /** As `connect`, after the failures so far are forgotten and a connection that holds was given up. */
  async reconnect(): Promise<void> {
    const link = this.#link;
    this.#failures = 0;
    if (link !== undefined) this.#lose(link, "it is connected to again");
    await this.connect();
  }

  /** A call found that nobody is there. */
  lost(client: Client, reason: string): void {
    if (this.#link?.client === client) this.#lose(this.#link, reason);
  }

  /** Ends the connection and whatever it started; a later `connect` begins again. */
  close(reason = "it was closed"): Promise<void> {
    this.#closing ??= this.#close(reason).finally(() => {
      this.#closing = undefined;
    });
    return this.#closing;
  }

  async #close(reason: string): Promise<void> {
    this.#cancelRetry();
    this.#abort?.abort(new Error(reason));
    const link = this.#link;
    this.#link = undefined;
    this.#state = "idle";
    this.#reason = undefined;
    if (link !== undefined) void this.#release(link, true);
    await this.#attempt;
    this.#cancelRetry();
    this.#state = "idle";
    await Promise.all(this.#ending);
  }

  async #connect(): Promise<void> {
    const { connectTimeoutMs } = this.settings;
    const abort = new AbortController();
    this.#abort = abort;
    this.#cancelRetry();
    this.#state = "connecting";
    this.#options.onMoved();
    const stop = this.#options.clock.after(connectTimeoutMs, () =>
      abort.abort(new Error(`it did not answer within ${connectTimeoutMs} ms`)),
    );
    try {
      await this.#open(abort.signal);
    } catch (thrown) {
      this.#fail(abort.signal.aborted ? abort.signal.reason : thrown);
    } finally {
      stop();
    }
  }

  async #open(signal: AbortSignal): Promise<void> {
    const { settings } = this;
    const library = await loadClientLibrary(this.#options.load);
    const transport = this.#transport(library);
    const client = this.#makeClient(library);
    const link: Link = { client, transport, since: this.#options.clock.now() };
    const request = { signal, timeout: settings.connectTimeoutMs };
    try {
      await client.connect(transport, request);
      const list = await this.#read(client, request);
      signal.throwIfAborted();
      this.#take(link, list);
    } catch (thrown) {
      const ended = this.#release(link);
      if (!signal.aborted) await ended; // By then it is known how the process ended.
      const reason = signal.aborted ? undefined : reasonOf(transport);
      throw reason === undefined ? thrown : new Error(reason, { cause: thrown });
    }
  }

  #take(link: Link, list: ToolList): void {
    const { client } = link;
    this.#link = link;
    if (!isSameList(list, this.#list)) this.#list = list;
    this.#instructions = client.getInstructions();
    this.#state = "ready";
    this.#reason = undefined;
    client.onclose = () => this.#lose(link, reasonOf(link.transport) ?? "the connection was closed");
    client.onerror = () => this.#suspect(link);
    this.#options.onMoved();
    if (this.#isStale) this.#refresh();
  }

  #makeClient({ Client: ClientClass }: ClientLibrary): Client {
    const { protocol } = this.settings;
    return new ClientClass(
      { name: "marling", version: VERSION },
      {
        capabilities: {},
        versionNegotiation: { mode: protocol },
        jsonSchemaValidator: { getValidator: acceptAll },
        listChanged: {
          tools: { autoRefresh: false, debounceMs: 0, onChanged: () => this.#refresh() },
        },
      },
    );
  }

  #transport(library: ClientLibrary): Transport {
    const { target, maxMessageBytes } = this.settings;
    return target.kind === "stdio"
      ? new StdioTransport(library, { target, maxMessageBytes, stderr: this.#stderr })
      : httpTransport(library, { target, maxMessageBytes, onTooLarge: (reason) => this.#giveUp(reason) });
  }

  async #read(client: Client, request: { readonly timeout: number }): Promise<ToolList> {
    const { tools, resources } = client.getServerCapabilities() ?? {};
    const listed =
      tools === undefined ? [] : (await client.listTools({}, { ...request, cacheMode: "refresh" })).tools;
    const hasResources = this.settings.resources && resources !== undefined;
    return readToolList(this.name, listed, { hasResources });
  }

  #refresh(): void {
    this.#isStale = true;
    const link = this.#link;
    if (this.#refreshing !== undefined || link === undefined) return;
    this.#refreshing = this.#readAgain(link).finally(() => {
      this.#refreshing = undefined;
      if (this.#isStale && this.#link !== undefined) this.#refresh();
    });
  }

  /** A list that cannot be read leaves the one before in place; whoever is not there any more is noticed elsewhere. */
  async #readAgain(link: Link): Promise<void> {
    this.#isStale = false;
    const list = await this.#read(link.client, { timeout: this.settings.connectTimeoutMs }).catch(
      () => undefined,
    );
    if (list === undefined || this.#link !== link || isSameList(list, this.#list)) return;
    this.#list = list;
    this.#options.onMoved();
  }

  /** Something went wrong beside calls: if the server does not answer, the connection is over. */
  #suspect(link: Link): void {
    if (this.#isPinging || this.#link !== link || link.transport instanceof StdioTransport) return;
    this.#isPinging = true;
    link.client
      .ping({ timeout: PING_TIMEOUT_MS })
      .catch((thrown: unknown) => {
        if (!isAnswer(thrown)) this.#lose(link, messageOf(thrown));
      })
      .finally(() => {
        this.#isPinging = false;
      })
      .catch(() => undefined);
  }

  /** The connection, or the attempt at one, leads nowhere. */
  #giveUp(reason: string): void {
    if (this.#link === undefined) this.#abort?.abort(new Error(reason));
    else this.#lose(this.#link, reason);
  }

  #lose(link: Link, reason: string): void {
    if (this.#link !== link) return;
    this.#link = undefined;
    if (this.#options.clock.now() - link.since >= STABLE_MS) this.#failures = 0;
    void this.#release(link);
    this.#fail(new Error(reason));
  }

  #fail(thrown: unknown): void {
    const { backoff, clock, random } = this.#options;
    this.#state = "down";
    this.#reason = this.redaction.clean(messageOf(thrown)).slice(0, 500);
    this.#failures += 1;
    this.#fault = MarlingError.is(thrown) ? thrown : undefined;
    if (this.#closing === undefined && this.#fault === undefined && this.#failures <= backoff.attempts) {
      const delayMs = backoffDelay(backoff, this.#failures, random);
      this.#nextAttemptAt = clock.now() + delayMs;
      this.#cancelTimer = clock.after(delayMs, () => void this.connect(), { isBackground: true });
    }
    this.#options.onMoved();
  }

  #release({ client, transport }: Link, isWanted = false): Promise<void> {
    client.onclose = () => undefined;
    const ended = endLink(client, transport, isWanted).finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
    return ended;
  }

  #cancelRetry(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#nextAttemptAt = undefined;
  }
}

/** Whether a server answered, be it with a refusal. */
export function isAnswer(thrown: unknown): boolean {
  return typeof (thrown as { readonly code?: unknown } | undefined)?.code === "number";
}

export function messageOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  const { cause } = thrown;
  return thrown.message === "fetch failed" && cause instanceof Error
    ? `it cannot be reached: ${cause.message}`
    : thrown.message;
}

/** Schemas of a server check nothing here: they may hold patterns that never end. */
function acceptAll<T>(): JsonSchemaValidator<T> {
  return (input) => ({ valid: true, data: input as T, errorMessage: undefined });
}

/** A list that says the same stays the same object, so that nobody takes it for another. */
function isSameList(one: ToolList, other: ToolList | undefined): boolean {
  return one.digest === other?.digest && one.refused.length === other.refused.length;
}

function reasonOf(transport: Transport): string | undefined {
  return transport instanceof StdioTransport ? transport.reason : undefined;
}

/** A server that is left on purpose is told so. */
async function endLink(client: Client, transport: Transport, isWanted: boolean): Promise<void> {
  if (isWanted && "terminateSession" in transport && transport.sessionId !== undefined) {
    const terminate = transport.terminateSession as () => Promise<void>;
    const late = new Promise<void>((resolve) => setTimeout(resolve, 1_000).unref());
    await Promise.race([terminate.call(transport).catch(() => undefined), late]);
  }
  await client.close().catch(() => undefined);
  await transport.close().catch(() => undefined);
}
