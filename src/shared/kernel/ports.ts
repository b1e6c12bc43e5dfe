import { z } from 'zod'

/** What a port is for. */
export const PortRole = z.enum(['game', 'query', 'rcon', 'files', 'other'])
export type PortRole = z.infer<typeof PortRole>

/** How a port is spoken to. */
export const PortProtocol = z.enum(['tcp', 'udp', 'both'])
export type PortProtocol = z.infer<typeof PortProtocol>

/** The number of a port. */
export const PortNumber = z.int().min(1).max(65_535)

/** How the primary port of a server is called where ports have names. */
export const PRIMARY_PORT = 'default'

/** How a server calls one of its further ports; `default` is the primary one. */
export const PortName = z
  .string()
  .regex(/^[a-z][a-z0-9_-]{0,31}$/, 'must be a small letter and at most 31 more of a-z, 0-9, _ and -')
  .refine((name) => name !== PRIMARY_PORT, `must not be ${PRIMARY_PORT}, which is the primary port`)

/** Ports from one number to another, both included. */
export const PortRange = z
  .object({ from: PortNumber, to: PortNumber })
  .refine(({ from, to }) => from <= to, 'must not end before it begins')
export type PortRange = z.infer<typeof PortRange>

/** Bounds of the lists, so that nothing that is asked of them takes long. */
export const MOST_PORT_RANGES = 50
export const MOST_SERVER_PORTS = 50
