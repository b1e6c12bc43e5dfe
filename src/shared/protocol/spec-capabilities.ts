import type { Capability } from './define.ts'
import type { ServerSpec } from './server-spec.ts'

/** `{{NAME | split}}`, which older agents take for a variable that nobody has. */
const FILTERED = /\{\{[^{}|]*\|/

/**
 * What an agent must be able to do to run a server as its specification says; one that cannot would start another line in silence.
 * `startup@1`: it splits `{{NAME | split}}` and obeys `shell`.
 */
export function specCapabilities({ startup, shell }: Pick<ServerSpec, 'startup' | 'shell'>): Capability[] {
  return FILTERED.test(startup) || (shell ?? 'sh') !== 'sh' ? ['startup@1'] : []
}
