import { z } from 'zod'
import type { ServerSpec } from '../../../shared/protocol/server-spec.ts'

/** Where the RCON of a run is. `port` 0 and an empty password: the variables of the server do not say. */
export const RconPlace = z.object({
  protocol: z.enum(['source', 'minecraft']),
  /** The server's own address. */
  ip: z.string(),
  port: z.int(),
  password: z.string(),
  passwordVariable: z.string(),
})
export type RconPlace = z.infer<typeof RconPlace>

/** Where a start of this specification will have its RCON; `undefined` without one. */
export function rconOf({ console, env, ports }: ServerSpec): RconPlace | undefined {
  if (console.input?.kind !== 'rcon') return undefined
  const { protocol, port, passwordVariable } = console.input
  const primary = ports.find((one) => one.primary) ?? ports[0]
  const number =
    typeof port === 'number' ? port : port === 'SERVER_PORT' ? (primary?.port ?? 0) : Number(env[port] ?? '')
  return {
    protocol,
    ip: primary?.ip ?? '127.0.0.1',
    port: Number.isInteger(number) && number > 0 && number <= 65_535 ? number : 0,
    password: env[passwordVariable] ?? '',
    passwordVariable,
  }
}
