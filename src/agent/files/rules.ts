import ignore from 'ignore'
import { type FilePaths, FileReach } from '../../shared/kernel/file-paths.ts'
import { pathText } from '../../shared/kernel/path-text.ts'
import { partsOf, type ServerMount } from '../../shared/protocol/mounts.ts'
import { AgentFailure } from '../failure.ts'
import type { FolderHandle } from './folder-handle.ts'
import { MOST_PATH_BYTES, type PathField, pathIn } from './place.ts'
import type { Problems } from './problems.ts'
import { walk } from './walk.ts'

/** Where containers have the folder of their server. */
const CONTAINER_HOME = '/home/container'

/** Which paths of a server are nobody's to reach through its folder, or not for whoever asks. */
export class PathRules {
  readonly #mounted: readonly (readonly string[])[]
  readonly #denied: ReturnType<typeof ignore> | undefined
  readonly #reach: FileReach | undefined

  /** `denied`: patterns of .gitignore, whatever the case of letters. `filePaths`: what a member is held to. */
  constructor(mounts: readonly ServerMount[], denied: readonly string[], filePaths?: FilePaths) {
    this.#mounted = mounts.flatMap(({ target }) => placeOfMount(target))
    this.#denied = denied.length === 0 ? undefined : ignore({ ignorecase: true }).add([...denied])
    this.#reach = filePaths === undefined ? undefined : new FileReach(filePaths)
  }

  /**
   * Refuses a path in a place that a folder of the node is mounted at while the server runs: the agent would see, and leave, something else
   * there than the game. With `changes` also what holds such a place: without it the game would lose the mount.
   */
  check(path: string, { changes = false, ...field }: PathField & { readonly changes?: boolean } = {}): void {
    const names = partsOf(path)
    for (const place of this.#mounted) {
      const isIn = startsWith(names, place)
      if (!isIn && !(changes && startsWith(place, names))) continue
      const shown = `/${place.join('/')}`
      const reason = isIn
        ? `lies in ${shown}, where a folder of the node is mounted: its files are not those of the server, and are managed on the node`
        : `holds ${shown}, where a folder of the node is mounted: take the mount away first (panel servers edit)`
      throw new AgentFailure('PATH_INVALID', reason, field)
    }
  }

  /** Whether whoever asks is held to other paths. A folder on the way to these is not hidden. */
  isHidden(path: string, isFolder: boolean): boolean {
    if (this.#reach === undefined) return false
    return isFolder ? !this.#reach.opens(path) : !this.#reach.allows(path, false)
  }

  /** Whether anything may be hidden at all. */
  get hides(): boolean {
    return this.#reach !== undefined
  }

  /** Whether whoever asks does not get what has this path from the folder of the server on. */
  isDenied(path: string, isFolder = false): boolean {
    return this.isHidden(path, isFolder) || this.#isKept(path, isFolder)
  }

  /** Refuses what is hidden, once it is known whether it is a folder. */
  refuseHidden(path: string, isFolder: boolean): void {
    if (this.isHidden(path, isFolder)) throw outside(path)
  }

  /** Refuses to make or change what whoever asks does not reach: a folder on the way to what they reach stays as it is. */
  refuseUnreached(path: string, isFolder: boolean): void {
    if (this.#reach?.allows(path, isFolder) === false) throw outside(path)
  }

  /** Leaves an entry of a tree out; what is hidden is not named. Answers whether it was. */
  leavesOut(path: string, isFolder: boolean, problems: Problems): boolean {
    if (this.isHidden(path, isFolder)) problems.addOnce('/', HIDDEN)
    else if (this.#isKept(path, isFolder)) problems.add(path, KEPT)
    else return false
    return true
  }

  #isKept(path: string, isFolder: boolean): boolean {
    if (this.#denied === undefined) return false
    const inside = partsOf(path).join('/')
    if (!ignore.isPathValid(inside)) return false
    return this.#denied.ignores(inside) || (isFolder && this.#denied.ignores(`${inside}/`))
  }

  /** Refuses a tree with something in it that is denied, at its own path or at those it is to have. The caller holds the folder open. */
  async refuseDeniedIn(folder: FolderHandle, paths: readonly string[], signal?: AbortSignal): Promise<void> {
    if (this.#denied === undefined && this.#reach === undefined) return
    let found: string | undefined
    let isHidden = false
    const look = (way: Buffer | undefined, name: Buffer, isFolder: boolean): boolean => {
      const at = pathIn(way, name)
      const below = at === undefined ? undefined : pathText(at)
      if (below === undefined || paths.some((path) => this.isDenied(`${path}/${below}`, isFolder))) {
        found ??= below ?? 'what lies too deep'
        isHidden = below !== undefined && paths.some((path) => this.isHidden(`${path}/${below}`, isFolder))
      }
      return found === undefined
    }
    await walk(
      folder,
      {
        entry: (_folder, name, at) => look(at.path(MOST_PATH_BYTES), name, false),
        enter: (_folder, name, above) => look(above.path(MOST_PATH_BYTES), name, true),
      },
      () => found !== undefined || signal?.aborted === true,
    )
    if (isHidden)
      throw new AgentFailure('DENIED', `${paths[0]?.slice(0, 200)} holds more than your access to this server reaches`)
    if (found !== undefined) throw denied(found)
  }
}

/** The template keeps something in a tree from its members. */
export function denied(path: string): AgentFailure {
  return new AgentFailure('DENIED', `The template of this server keeps ${path.slice(0, 200)} from its members`)
}

/** A member is held to other paths. */
export function outside(path: string): AgentFailure {
  return new AgentFailure('DENIED', `Your access to this server does not reach ${path.slice(0, 200)}`)
}

/** Why entries that are not named were left out. */
export const HIDDEN = 'has more than your access to this server reaches, which was left out'

/** Why an entry of a tree was left out. */
export const KEPT = 'is kept from members by the template of the server'

/** Where a mount lies in the folder of its server; nowhere for one elsewhere in a container. */
function placeOfMount(target: string): string[][] {
  if (!target.startsWith('/')) return [partsOf(target)]
  const home = partsOf(CONTAINER_HOME)
  const names = partsOf(target)
  return startsWith(names, home) && names.length > home.length ? [names.slice(home.length)] : []
}

function startsWith(names: readonly string[], first: readonly string[]): boolean {
  return first.length <= names.length && first.every((name, at) => name === names[at])
}
