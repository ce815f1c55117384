import { callSlot } from "./slot-call.ts";
import type { TurnRun } from "./turn-run.ts";

/** Shows the protocol the extension that a turn carries. Throws `turn_extension_rejected`. */
export async function validateExtension({ session, extension }: TurnRun): Promise<void> {
  const { protocolSession } = session.plugins;
  const site = {
    slot: "protocol.session",
    callback: "validateTurnExtension",
    code: "turn_extension_rejected",
  } as const;
  await callSlot(session, site, () => protocolSession.validateTurnExtension?.(extension));
}
