import { z } from 'zod'

/** What a port is for. */
export const PortRole = z.enum(['game', 'query', 'rcon', 'files', 'other'])
export type PortRole = z.infer<typeof PortRole>

/** How a port is spoken to. */
export const PortProtocol = z.enum(['tcp', 'udp', 'both'])
export type PortProtocol = z.infer<typeof PortProtocol>
