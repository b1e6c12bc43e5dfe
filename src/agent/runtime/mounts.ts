import { lstatSync, realpathSync, type Stats } from 'node:fs'
import { dirname } from 'node:path'
import { lieTogether, partsOf, type ServerMount } from '../../shared/protocol/mounts.ts'
import { AgentFailure } from '../failure.ts'

/** A folder that this node's own configuration lets servers have, with all that is in it. */
export interface AllowedMount {
  readonly source: string
  /** Servers may read it and not write to it. */
  readonly readOnly: boolean
}

/** Folders that no server is ever given, whatever is allowed: nor what is in them, nor what they are in. */
const NEVER = ['/proc', '/sys', '/dev', '/boot', '/etc', '/root', '/run/docker.sock', '/var/run/docker.sock'] as const

/** Says which folders of this node servers may have beside their own. Nothing that a daemon says makes it more. */
export class MountRules {
  readonly #allowed: readonly AllowedMount[]
  readonly #never: readonly string[]

  /** `never`: the agent's own folders, and the sockets of engines. */
  constructor(allowed: readonly AllowedMount[], never: readonly string[]) {
    this.#allowed = allowed
    this.#never = [...NEVER, ...never]
  }

  /** The mounts with the real paths of their folders. Throws BAD_REQUEST with the reason for the first that is refused. */
  resolve(mounts: readonly ServerMount[]): ServerMount[] {
    return mounts.map((mount) => ({ ...mount, source: this.#real(mount) }))
  }

  #real({ source, readOnly }: ServerMount): string {
    const refuse = (reason: string): never => {
      throw new AgentFailure('BAD_REQUEST', `The mount of ${source} is refused by this node: ${reason}`)
    }
    if (partsOf(source).includes('..') || !source.startsWith('/'))
      return refuse('it must be an absolute path without ".."')
    if (this.#allowed.length === 0) return refuse('its agent allows none (mounts in agent.yaml)')
    const real = realOf(source)
    if (real === undefined) return refuse('there is no such folder')
    if (!lstatSync(real).isDirectory()) return refuse('it is no folder')
    const own = this.#never.find((path) => lieTogether(real, realOf(path) ?? path))
    if (real === '/' || own !== undefined) return refuse(`${own ?? '/'} is never given to a server`)
    const within = this.#allowed.filter((allowed) => {
      const top = realOf(allowed.source)
      return (
        top !== undefined && (real === top || (lieTogether(real, top) && partsOf(real).length > partsOf(top).length))
      )
    })
    if (within.length === 0) return refuse('it is not in a folder that its agent allows (mounts in agent.yaml)')
    if (!readOnly && within.every((allowed) => allowed.readOnly))
      return refuse('its agent allows it to be read only (:ro)')
    const open = openAbove(real)
    if (open !== undefined) return refuse(`${open} can be changed by others, who could put another folder in its place`)
    return real
  }
}

/** The path without links; `undefined` when nothing is there. */
function realOf(path: string): string | undefined {
  try {
    return realpathSync(path)
  } catch {
    return undefined // nothing is there, or the way to it is closed
  }
}

/** The nearest folder above in which somebody else than root and the agent could rename. */
function openAbove(path: string): string | undefined {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if (isOpen(lstatSync(folder))) return folder
    if (folder === dirname(folder)) return undefined
  }
}

function isOpen({ uid, mode }: Stats): boolean {
  return (uid !== 0 && uid !== process.getuid?.()) || (mode & 0o022) !== 0
}
