import { MarlingError } from "../base/errors.ts";
import {
  HOST_VIEWS,
  type HostServices,
  hostView,
  type RuntimeSessionHost,
  unavailableHost,
} from "./host-services.ts";

/** Services, or how to get them when the first is asked for. */
export type BoundServices = Partial<HostServices> | (() => Partial<HostServices>);

const UNBOUND: HostServices = unavailableHost();

/**
 * The services of a session that is built before the session they serve: plugins get `host` in `ready` and may call it
 * once the session is open. Until then every method rejects with `host_service_unavailable`. Nothing is made for plugins
 * that do not ask.
 */
export class HostBinding {
  #host: RuntimeSessionHost | undefined;
  #bound: BoundServices | undefined;
  #services: HostServices | undefined;

  constructor(services?: Partial<HostServices>) {
    if (services !== undefined) this.bind(services);
  }

  get host(): RuntimeSessionHost {
    this.#host ??= Object.freeze(
      Object.fromEntries(HOST_VIEWS.runtime.map((method) => [method, this.#late(method)])),
    ) as unknown as RuntimeSessionHost; // every method of the services
    return this.#host;
  }

  get isBound(): boolean {
    return this.#bound !== undefined;
  }

  /** Opens the services; once. */
  bind(services: BoundServices): void {
    if (this.#bound !== undefined)
      throw new MarlingError(
        "invalid_options",
        "plugin session: expected its host to be bound once, found a second binding",
      );
    this.#bound = services;
  }

  /** A method of the services as they are when it is called. */
  #late(method: keyof HostServices): (...args: readonly unknown[]) => unknown {
    return (...args) => (this.#open()[method] as (...args: readonly unknown[]) => unknown)(...args);
  }

  #open(): HostServices {
    if (this.#bound === undefined) return UNBOUND;
    this.#services ??= hostView(typeof this.#bound === "function" ? this.#bound() : this.#bound, "runtime");
    return this.#services;
  }
}
