// Sessions that are read and not driven (ruling 17).
//   RO1  `sessions.open` creates nothing and takes up nothing that was left in the session.
//   RO2  a session that needs what this runtime lacks is built without plugins: no code of a plugin runs beside a session that
//        it does not belong to. It is read-only until it is closed and opened again.
//   RO3  a session that is open and becomes unbound by a commit of another runtime is read-only until a commit changes that.

import type { SessionId } from "../model/ids.ts";
import { allBindingsOf } from "./bindings.ts";
import { unknownSession } from "./open-session.ts";
import type { KernelParts } from "./parts.ts";
import { reloadSession } from "./reload-session.ts";
import { ResidentSession } from "./resident-session.ts";
import { hostServices } from "./services.ts";
import { Session } from "./session.ts";
import { decodeState } from "./session-state.ts";
import { SessionWork } from "./session-work.ts";
import { TurnQueue } from "./turn-queue.ts";

interface Reader {
  readonly resident: ResidentSession;
  readonly handle: Session;
}

export class SessionReaders {
  readonly #parts: KernelParts;
  readonly #open = new Map<SessionId, Promise<Reader>>();

  constructor(parts: KernelParts) {
    this.#parts = parts;
  }

  /** The handle as long as it is not closed; it shows the newest commit. */
  async open(id: SessionId): Promise<Session> {
    const known = this.#open.get(id);
    const reading = known ?? this.#read(id);
    if (known === undefined) {
      this.#open.set(id, reading);
      reading.catch(() => this.#open.delete(id));
    }
    const { resident, handle } = await reading;
    if (known !== undefined) await resident.writer.run(() => reloadSession(resident));
    return handle;
  }

  async close(id: SessionId): Promise<void> {
    const reader = await this.#open.get(id)?.catch(() => undefined);
    this.#open.delete(id);
    if (reader === undefined) return;
    this.#parts.readers.unregisterSession(id);
    reader.resident.observation.close();
    await reader.resident.plugins.dispose();
  }

  async closeAll(): Promise<void> {
    await Promise.all([...this.#open.keys()].map((id) => this.close(id)));
  }

  async #read(id: SessionId): Promise<Reader> {
    const parts = this.#parts;
    const stored = await parts.store.load(id, { isPartial: true });
    if (stored === undefined) throw unknownSession(id);
    const state = decodeState(stored, { isLive: !parts.store.isDurable });
    const plugins = parts.readers.buildSession(id, { parent: state.parentSessionId });
    const resident = new ResidentSession(parts, {
      plugins,
      state,
      isReader: true,
      services: hostServices,
      work: (made) => new SessionWork(made),
    });
    resident.bindings = await allBindingsOf(parts, stored);
    const queue = new TurnQueue(resident, stored.inputs);
    const close = async (): Promise<void> => {
      await queue.close("session_closed");
      await this.close(id);
    };
    return { resident, handle: new Session(resident, { queue, close }) };
  }
}
