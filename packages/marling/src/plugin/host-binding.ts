import { MarlingError } from "../base/errors.ts";
import { type HostServices, hostView, type RuntimeSessionHost, unavailableHost } from "./host-services.ts";

/**
 * The services of a session that is built before the session they serve: plugins get `host` in `ready` and may call it
 * once the session is open. Until then every method rejects with `host_service_unavailable`.
 */
export class HostBinding {
  readonly host: RuntimeSessionHost;
  #services: HostServices = unavailableHost();
  #isBound = false;

  constructor(services?: Partial<HostServices>) {
    if (services !== undefined) this.bind(services);
    const late = Object.keys(this.#services).map((method) => [
      method,
      (...args: readonly unknown[]) =>
        (this.#services[method as keyof HostServices] as (...args: readonly unknown[]) => unknown)(...args),
    ]);
    this.host = Object.freeze(Object.fromEntries(late)) as RuntimeSessionHost;
  }

  get isBound(): boolean {
    return this.#isBound;
  }

  /** Opens the services; once. */
  bind(services: Partial<HostServices>): void {
    if (this.#isBound)
      throw new MarlingError(
        "invalid_options",
        "plugin session: expected its host to be bound once, found a second binding",
      );
    this.#isBound = true;
    this.#services = hostView(services, "runtime");
  }
}
