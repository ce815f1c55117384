// What native models are made with. Types only: whoever compiles against them needs no types of Node.

/** Time limits of a call. */
export interface CallTimeouts {
  /** How long a connection may take to be made; 30 seconds unless it is given. */
  readonly connectMs?: number;
  /** How long a server may say nothing, before its answer and within it; 5 minutes unless it is given. */
  readonly idleMs?: number;
}

/** `fetch`, or a function that does as it does. */
export type FetchFunction = (url: string, request: RequestInit) => Promise<Response>;

/** What both native models are made with. */
export interface NativeModelOptions {
  /** The model's name at the provider. */
  readonly model: string;
  /**
   * The key. When it is left out and `baseUrl` is the provider's own, the provider's variable of the environment is
   * read; without a key there, making the model fails. Other addresses are sent a key only if it is given here.
   */
  readonly apiKey?: string;
  /** Where the provider's interface begins, such as `http://127.0.0.1:11434/v1`. */
  readonly baseUrl?: string;
  /** Sent with every request, never stored. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The port's id, under which data for replay is kept; by default the provider and the model. */
  readonly id?: string;
  readonly contextWindow?: number;
  /** The most that an answer may have, unless a request says otherwise. */
  readonly maxOutputTokens?: number;
  readonly timeouts?: CallTimeouts;
  /**
   * What sends the requests instead of connections of marling's own: for a proxy, a gateway, a recorder, or whatever
   * watches `fetch`. `timeouts.connectMs` is then its own.
   */
  readonly fetch?: FetchFunction;
}
