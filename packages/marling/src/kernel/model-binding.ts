import { MarlingError } from "../base/errors.ts";
import type { ModelBinding } from "./parts.ts";
import type { ResidentSession } from "./resident-session.ts";

/** The model that the session's policy names, or another by name. A model that the policy pins must have its id. */
export function modelOf(session: ResidentSession, name: string = session.policy.model): ModelBinding {
  const binding = session.parts.models.get(name);
  const { model, modelId } = session.policy;
  if (binding !== undefined && name === model && modelId !== undefined && binding.port.id !== modelId) {
    throw new MarlingError(
      "provider_mismatch",
      `session ${session.id}: expected the model ${name} to be ${modelId}, found ${binding.port.id}`,
      { details: { sessionId: session.id, expected: modelId, actual: binding.port.id } },
    );
  }
  if (binding !== undefined) return binding;
  const known = [...session.parts.models.keys()];
  if (known.length === 0)
    throw new MarlingError(
      "provider_unconfigured",
      `session ${session.id}: expected a model, found that the runtime has none`,
      { details: { sessionId: session.id } },
    );
  throw new MarlingError(
    "provider_unavailable",
    `session ${session.id}: expected one of the runtime's models (${known.join(", ")}), found ${name}`,
    {
      details: { sessionId: session.id, providerId: name },
    },
  );
}
