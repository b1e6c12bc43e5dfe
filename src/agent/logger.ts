/** Where the agent writes its own log: `message` is a constant sentence, the values are fields. Never secrets. */
export interface AgentLog {
  info(fields: Readonly<Record<string, unknown>>, message: string): void
  warn(fields: Readonly<Record<string, unknown>>, message: string): void
  error(fields: Readonly<Record<string, unknown>>, message: string): void
}

/** The text of anything that was thrown. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
