import { FIRST_MS } from './files.ts'
import type { SimServer } from './rows.ts'

/** A value as it stands in an answer. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json }
/** An item, a list or what stands in their place. */
export type View = { [name: string]: Json }
/** Which relations an answer has, and which those have. */
export type Includes = ReadonlyMap<string, Includes>

/** What a key of the application API has rights to, each by itself. */
export const RESOURCES = [
  'users',
  'allocations',
  'database_hosts',
  'server_databases',
  'eggs',
  'locations',
  'nests',
  'nodes',
  'servers',
  'mounts',
  'roles',
] as const
export type Resource = (typeof RESOURCES)[number]
/** Whose rows an include may show: what the key may not read is answered as nothing. */
export type MayRead = (resource: Resource) => boolean

/** As `2026-01-02T03:04:05+00:00`. */
export const stamp = (ms: number): string => new Date(ms).toISOString().replace(/\.\d{3}Z$/, '+00:00')
/** When everything of the source was made. */
export const AT = stamp(FIRST_MS)
export const DATES = { created_at: AT, updated_at: AT }
/** Variables have theirs in another way. */
export const FINE_DATES = { created_at: '2026-01-02T03:04:05.000000Z', updated_at: '2026-01-02T03:04:05.000000Z' }

export const item = (object: string | null, attributes: View): View => ({ object, attributes })
export const list = (data: View[]): View => ({ object: 'list', data })
/** In place of what there is none of, or what the key may not read. */
export const NOTHING: View = { object: 'null_resource', attributes: null }

/** The relations that a query asks for, two levels deep. */
export function includesOf(text: string | null): Includes {
  const tree = new Map<string, Map<string, Includes>>()
  for (const path of (text ?? '').split(',')) {
    const [first = '', second] = path.trim().split('.')
    if (first === '') continue
    const below = tree.get(first) ?? new Map<string, Includes>()
    tree.set(first, below)
    if (second !== undefined && second !== '') below.set(second, new Map())
  }
  return tree
}

/** What PHP makes of an empty map. */
export const phpMap = (map: Record<string, unknown> | null): Json =>
  map === null || Object.keys(map).length === 0 ? [] : (map as { [name: string]: Json })
/** The short name of a server, in URLs and for SFTP. */
export const identifier = (server: SimServer): string => server.uuid.slice(0, 8)

/** Thrown where the source answers 500, because a stored row cannot be shown. */
export class BrokenRow extends Error {}

/** Where nodes are reached. */
export interface NodeAddress {
  readonly host: string
  readonly port: number
  readonly scheme: 'http' | 'https'
}
