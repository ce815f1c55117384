// What headers are made of, in requests and in answers, as parts of patterns.

/** A sign of a name. */
export const NAME_SIGN = "[\\w!#$%&'*+.^`|~-]";
/** A sign of a value: text, and tabs. A carriage return, a line feed and other signs of control are none. */
export const VALUE_SIGN = "[\\t\\x20-\\x7e\\x80-\\xff]";
