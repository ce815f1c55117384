// What every command is made of.

import type { CommandLine, CommandUsage } from "../command-line.ts";
import type { Environment } from "../environment.ts";

export interface Command extends CommandUsage {
  /** Resolves with the exit code. */
  run(environment: Environment, line: CommandLine): Promise<number>;
}
