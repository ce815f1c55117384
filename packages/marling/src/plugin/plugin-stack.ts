import type { Plugin } from "./plugin.ts";

/**
 * A list of plugins to be edited before a host is made. Edits never reorder the others and keep the plugins' identity;
 * duplicates are allowed here and refused by the host.
 */
export class PluginStack {
  #plugins: readonly Plugin[];

  constructor(plugins: readonly Plugin[] = []) {
    this.#plugins = [...plugins];
  }

  get ids(): readonly string[] {
    return this.#plugins.map(({ id }) => id);
  }

  push(plugin: Plugin): this {
    this.#plugins = [...this.#plugins, plugin];
    return this;
  }

  extend(plugins: Iterable<Plugin>): this {
    this.#plugins = [...this.#plugins, ...plugins];
    return this;
  }

  /** Drops every plugin with the id; an unknown id changes nothing. */
  remove(id: string): this {
    return this.retain((plugin) => plugin.id !== id);
  }

  /** Puts the plugin in the place of the first with its id, or at the end. */
  replace(plugin: Plugin): this {
    const index = this.#plugins.findIndex(({ id }) => id === plugin.id);
    this.#plugins = index < 0 ? [...this.#plugins, plugin] : this.#plugins.with(index, plugin);
    return this;
  }

  retain(keep: (plugin: Plugin) => boolean): this {
    this.#plugins = this.#plugins.filter(keep);
    return this;
  }

  /** Applies a function to the stack and returns the stack. */
  configure(edit: (stack: this) => void): this {
    edit(this);
    return this;
  }

  toArray(): readonly Plugin[] {
    return [...this.#plugins];
  }
}
