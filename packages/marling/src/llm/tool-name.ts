// Names of tools as providers accept them. A model may call what is no tool, by a name that its provider would refuse to
// read again; such a call stays in the history, and the session must go on.
//   LA20  a name in the history that a provider would refuse is sent as one that derives from it alone. Names that tools
//         can have are sent as they are.

const ACCEPTED = /^[A-Za-z0-9_-]{1,64}$/;
const ACCEPTED_BY_ANTHROPIC = /^[A-Za-z0-9_-]{1,128}$/;
const ACCEPTED_BY_GOOGLE = /^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$/;
const LONGEST = 64;

/** The name to send for the name of a call or a result. */
export function acceptedToolName(name: string, provider: string): string {
  if (acceptedBy(provider).test(name)) return name;
  const plain = name.slice(0, LONGEST).replaceAll(/[^A-Za-z0-9_-]/g, "_");
  return /^[A-Za-z_]/.test(plain) ? plain : `_${plain}`.slice(0, LONGEST);
}

function acceptedBy(provider: string): RegExp {
  if (provider.startsWith("anthropic")) return ACCEPTED_BY_ANTHROPIC;
  return provider.startsWith("google") ? ACCEPTED_BY_GOOGLE : ACCEPTED;
}
