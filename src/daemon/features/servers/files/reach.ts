import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type FilePaths, FileReach } from '../../../../shared/kernel/file-paths.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { memberPaths } from '../../../access/member-paths.ts'
import type { Holder } from '../../../access/permit.ts'
import type { Context } from '../../../http/route.ts'
import { type FileDeps, serverOf } from './agent.ts'
import { deniedTo, refuseDenied } from './denied-files.ts'

/** What somebody does not get of the files of a server, as requests to its agent have it. */
export interface FileRules {
  /** Patterns of .gitignore that the template keeps from its members. */
  readonly denied: string[]
  /** What a member is held to by their grant. */
  readonly filePaths?: FilePaths
}

/** Where the files of a server are, and which of them somebody does not get. */
export interface Reached {
  readonly nodeId: string
  readonly rules: FileRules
}

/** Paths that a request names, by what it does with them. */
export interface NamedPaths {
  readonly caller: Holder
  /** Read or changed as they are. */
  readonly paths?: readonly string[]
  /** The same of what is certainly no folder. */
  readonly files?: readonly string[]
  /** Only shown: what the template keeps from members is so, too. */
  readonly seen?: readonly string[]
  /** Looked into, or written below: folders on the way to what is allowed are among them. */
  readonly folders?: readonly string[]
}

/**
 * What somebody may reach of the files of a server, on every way to them; throws PERMISSION_DENIED when one of the named paths is not
 * theirs, SERVER_NOT_FOUND and SERVER_SUSPENDED. The agent holds what lies in trees to the rules.
 */
export async function reach(
  deps: Pick<FileDeps, 'db' | 'clock'>,
  serverId: string,
  { caller, paths = [], files = [], folders = [], seen = [] }: NamedPaths,
): Promise<Reached> {
  const row = await serverOf(deps, serverId)
  for (const path of [...paths, ...files, ...folders]) refuseDenied(row, path, caller)
  const denied = deniedTo(row, caller)
  const filePaths = await memberPaths({ q: deps.db.read, now: now(deps.clock) }, caller, serverId)
  if (filePaths === null) return { nodeId: row.nodeId, rules: { denied } }
  refuseOutside(filePaths, { paths, files, folders: [...folders, ...seen] })
  return { nodeId: row.nodeId, rules: { denied, filePaths } }
}

/** Has a transfer of a file end when whoever makes it does not reach the file any more. */
export function keepWhileReached(
  deps: Pick<FileDeps, 'db' | 'clock'>,
  serverId: string,
  { context, path }: { readonly context: Pick<Context, 'keepWhile'>; readonly path: string },
): void {
  context.keepWhile((caller) => reach(deps, serverId, { caller, files: [path] }))
}

/** Refuses paths that the patterns of a member do not reach. What there is makes no difference. */
export function refuseOutside(
  filePaths: FilePaths,
  { paths = [], files = [], folders = [] }: Pick<NamedPaths, 'paths' | 'files' | 'folders'>,
): void {
  const reached = new FileReach(filePaths)
  const outside =
    paths.find((path) => !reached.allows(path, true)) ??
    files.find((path) => !reached.allows(path, false)) ??
    folders.find((path) => !reached.opens(path))
  if (outside === undefined) return
  throw new PanelError('PERMISSION_DENIED', `Your access to this server does not reach ${outside.slice(0, 200)}`, {
    meta: { missing: [], allow: filePaths.allow, deny: filePaths.deny },
  })
}
