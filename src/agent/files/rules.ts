import ignore from 'ignore'
import { pathText } from '../../shared/kernel/path-text.ts'
import { partsOf, type ServerMount } from '../../shared/protocol/mounts.ts'
import { AgentFailure } from '../failure.ts'
import type { FolderHandle } from './folder-handle.ts'
import { MOST_PATH_BYTES, type PathField, pathIn } from './place.ts'
import { walk } from './walk.ts'

/** Where containers have the folder of their server. */
const CONTAINER_HOME = '/home/container'

/** Which paths of a server are nobody's to reach through its folder, or not for whoever asks. */
export class PathRules {
  readonly #mounted: readonly (readonly string[])[]
  readonly #denied: ReturnType<typeof ignore> | undefined

  /** `denied`: patterns of .gitignore, whatever the case of letters. */
  constructor(mounts: readonly ServerMount[], denied: readonly string[]) {
    this.#mounted = mounts.flatMap(({ target }) => placeOfMount(target))
    this.#denied = denied.length === 0 ? undefined : ignore({ ignorecase: true }).add([...denied])
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

  /** Whether whoever asks does not get what has this path from the folder of the server on. */
  isDenied(path: string, isFolder = false): boolean {
    if (this.#denied === undefined) return false
    const inside = partsOf(path).join('/')
    if (!ignore.isPathValid(inside)) return false
    return this.#denied.ignores(inside) || (isFolder && this.#denied.ignores(`${inside}/`))
  }

  /** Refuses a tree with something in it that is denied, at its own path or at those it is to have. The caller holds the folder open. */
  async refuseDeniedIn(folder: FolderHandle, paths: readonly string[], signal?: AbortSignal): Promise<void> {
    if (this.#denied === undefined) return
    let found: string | undefined
    const look = (way: Buffer | undefined, name: Buffer, isFolder: boolean): boolean => {
      const at = pathIn(way, name)
      const below = at === undefined ? undefined : pathText(at)
      if (below === undefined || paths.some((path) => this.isDenied(`${path}/${below}`, isFolder)))
        found ??= below ?? 'what lies too deep'
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
    if (found !== undefined) throw denied(found)
  }
}

/** The template keeps something in a tree from its members. */
export function denied(path: string): AgentFailure {
  return new AgentFailure('DENIED', `The template of this server keeps ${path.slice(0, 200)} from its members`)
}

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
