import { z } from 'zod'

const MOST_PATH = 1024

/** A folder of the node: an absolute path without `..`, `:` and control characters. */
export const MountSource = z
  .string()
  .max(MOST_PATH)
  .refine(
    (path) => isPlain(path) && path.startsWith('/') && partsOf(path).length > 0,
    'must be an absolute path of a folder of the node, without .. and :',
  )

/**
 * Where a server sees it: relative, in the folder of the server; absolute, anywhere in its container, but not in the place of
 * what every container has.
 */
export const MountTarget = z
  .string()
  .max(MOST_PATH)
  .refine(
    (path) => isPlain(path) && partsOf(path).length > 0 && !isSystemPlace(path),
    'must be a path without .. and :, in the folder of the server (relative) or in its container (absolute)',
  )

/** A folder of the node that a server is given beside its own. */
export const ServerMount = z.object({
  source: MountSource,
  target: MountTarget,
  readOnly: z.boolean().default(false),
})
export type ServerMount = z.infer<typeof ServerMount>

/** Mounts of a server or a template; no target lies in another one. */
export const Mounts = z
  .array(ServerMount)
  .max(16)
  .superRefine((mounts, context) => {
    for (const [number, { target }] of mounts.entries()) {
      const before = mounts.slice(0, number).find((other) => lieTogether(other.target, target))
      if (before === undefined) continue
      context.addIssue({ code: 'custom', path: [number, 'target'], message: `lies together with ${before.target}` })
    }
  })

/** The mounts of a template and of its server, whose own ones take the place of those that they lie together with. */
export function mountsOf(template: readonly ServerMount[], server: readonly ServerMount[]): ServerMount[] {
  const others = template.filter((mount) => !server.some(({ target }) => lieTogether(mount.target, target)))
  return [...others, ...server]
}

/** The names of a path from its root on. */
export function partsOf(path: string): string[] {
  return path.split('/').filter((part) => part !== '' && part !== '.')
}

/** Whether one path is the other, or lies in it. */
export function lieTogether(one: string, other: string): boolean {
  if (one.startsWith('/') !== other.startsWith('/')) return false
  const [first, second] = [partsOf(one), partsOf(other)]
  const length = Math.min(first.length, second.length)
  return first.slice(0, length).every((part, at) => part === second[at])
}

const SYSTEM_PLACES: ReadonlySet<string> = new Set([
  'proc',
  'sys',
  'dev',
  'run',
  'tmp',
  'etc',
  'bin',
  'sbin',
  'lib',
  'lib64',
  'usr',
])

/** Places that an engine fills itself, and those of the programs that start a run. */
function isSystemPlace(path: string): boolean {
  if (!path.startsWith('/')) return false
  const [first = ''] = partsOf(path)
  return SYSTEM_PLACES.has(first)
}

function isPlain(path: string): boolean {
  if (path.includes(':') || path.includes('\\')) return false
  for (const character of path) if (character < ' ' || character === '\u007f') return false
  return path.split('/').every((part) => part !== '..' && part.length <= 255)
}
