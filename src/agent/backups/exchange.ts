import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, renameSync } from 'node:fs'
import { readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pathText } from '../../shared/kernel/path-text.ts'
import { AgentFailure } from '../failure.ts'
import { ARCHIVE_LIMITS } from '../files/archive/limits.ts'
import { FolderHandle } from '../files/folder-handle.ts'
import { MOST_PATH_BYTES, pathIn } from '../files/place.ts'
import { PathRules } from '../files/rules.ts'
import { removeFolder } from '../files/tree.ts'
import { type WalkPosition, walk } from '../files/walk.ts'
import { type AgentLog, errorText } from '../logger.ts'
import { syncFolder } from '../state/atomic-file.ts'
import { readOwnJson, writeOwnJson } from '../state/json-file.ts'
import type { AgentLayout } from '../state/layout.ts'

/** Beside the folders of servers, so that they are on one file system; nobody but the agent may enter them. */
const STAGED = '.restore-'
const REPLACED = '.replaced-'

/** What is written down before a server's folder is exchanged, and gone when that is done. */
interface Exchange {
  readonly serverId: string
  /** Names beside the server's folder. */
  readonly staged: string
  readonly replaced: string
  /** What is not in the new folder stays: all of it, or what these patterns name. */
  readonly keepOthers: boolean
  readonly kept: readonly string[]
}

type Places = Pick<AgentLayout, 'serversDir' | 'restoresDir'>

/** Where a server's next folder is made. */
export function stagedFolder({ serversDir }: Places, serverId: string): string {
  return join(serversDir, `${STAGED}${serverId}-${randomBytes(6).toString('hex')}`)
}

/**
 * Puts a folder into the place of a server's, and removes the one before it. What is done is written down first: an agent that is ended in
 * between finishes it when it starts, so that there is the one or the other folder and never a part of both.
 */
export async function exchange(
  places: Places,
  {
    serverId,
    staged,
    ...keep
  }: {
    readonly serverId: string
    /** As {@link stagedFolder} has named it. */
    readonly staged: string
    readonly keepOthers: boolean
    readonly kept: readonly string[]
  },
): Promise<void> {
  const replaced = `${REPLACED}${serverId}-${randomBytes(6).toString('hex')}`
  const plan: Exchange = { serverId, staged: staged.slice(places.serversDir.length + 1), replaced, ...keep }
  await writeOwnJson(journalOf(places, serverId), plan)
  await carryOut(places, plan)
  await removeFolder(join(places.serversDir, replaced))
}

/**
 * Finishes what an agent that was ended had begun, and removes what others have left. Resolves when every server has its folder, with
 * the servers that got theirs now; what takes its time goes on behind it.
 */
export async function finishExchanges(places: Places, log: AgentLog): Promise<string[]> {
  const finished: string[] = []
  for (const name of await readdir(places.restoresDir)) {
    if (!name.endsWith('.json')) continue
    const plan = await readOwnJson<Exchange>(join(places.restoresDir, name))
    if (plan === undefined) continue
    log.info({ serverId: plan.serverId }, 'finishing the restore of a server')
    await carryOut(places, plan)
    finished.push(plan.serverId)
  }
  const left = (await readdir(places.serversDir)).filter((name) => name.startsWith(STAGED) || name.startsWith(REPLACED))
  const removed = left.map((name) => removeFolder(join(places.serversDir, name)))
  void Promise.all(removed).catch((error: unknown) => {
    log.warn({ err: errorText(error) }, 'cannot remove what a restore has left, trying again at the next start')
  })
  return finished
}

/** Each step shows by itself whether it was done. */
async function carryOut(places: Places, plan: Exchange): Promise<void> {
  const { serversDir } = places
  const [files, staged, replaced] = [plan.serverId, plan.staged, plan.replaced].map((name) =>
    join(serversDir, name),
  ) as [string, string, string] // three names, three paths
  if (existsSync(staged)) {
    if (existsSync(files)) {
      if (plan.keepOthers || plan.kept.length > 0) await keepFrom(files, staged, plan)
      await rename(files, replaced)
    }
    await rename(staged, files)
    await syncFolder(serversDir)
  }
  await rm(journalOf(places, plan.serverId), { force: true })
  await syncFolder(places.restoresDir)
}

/** Moves what is to stay into the new folder. What was moved before is not there any more, so that it can be done again. */
async function keepFrom(files: string, staged: string, { keepOthers, kept }: Exchange): Promise<void> {
  const rules = new PathRules([], kept)
  const [old, fresh] = [FolderHandle.open(files), FolderHandle.open(staged)]
  try {
    if (old === undefined || fresh === undefined)
      throw new AgentFailure('CONFLICT_STATE', 'The folder of the server is no folder')
    const stays = (path: string, isFolder: boolean): boolean => keepOthers || rules.isDenied(path, isFolder)
    await merge(old, fresh, { path: '', depth: 0, stays })
  } finally {
    old?.close()
    fresh?.close()
  }
}

interface Merge {
  readonly path: string
  readonly depth: number
  readonly stays: (path: string, isFolder: boolean) => boolean
}

async function merge(old: FolderHandle, fresh: FolderHandle, { path, depth, stays }: Merge): Promise<void> {
  for (const text of [...old.names()]) {
    const name = Buffer.from(text, 'latin1')
    const below = `${path}/${pathText(name)}`
    const facts = old.statOf(name)
    if (facts === undefined) continue
    const isFolder = facts.isDirectory()
    const there = fresh.statOf(name)
    if (there === undefined && stays(below, isFolder)) renameSync(old.pathOf(name), fresh.pathOf(name))
    else if (isFolder && (there === undefined || there.isDirectory())) {
      const inner = old.child(name)
      if (inner === undefined) continue
      try {
        const at = { path: below, depth: depth + 1, stays }
        if (there === undefined && !(await holdsWhatStays(inner, at))) continue
        // No backup is that deep, so that there is nothing to be put together: all of it stays for the sake of what must.
        if (at.depth <= ARCHIVE_LIMITS.depth)
          await mergeInto(inner, fresh, { name, facts, isThere: there !== undefined }, at)
        else if (there === undefined) renameSync(old.pathOf(name), fresh.pathOf(name))
      } finally {
        inner.close()
      }
    }
  }
}

/** A folder that only has something that stays is made for it. */
async function mergeInto(
  inner: FolderHandle,
  fresh: FolderHandle,
  at: { readonly name: Buffer; readonly facts: { mode: number; uid: number }; readonly isThere: boolean },
  options: Merge,
): Promise<void> {
  if (!at.isThere) mkdirSync(fresh.pathOf(at.name), { mode: at.facts.mode & 0o777 })
  const target = fresh.child(at.name)
  try {
    if (target === undefined) return
    if (!at.isThere && process.getuid?.() === 0) target.give(at.facts.uid)
    await merge(inner, target, options)
  } finally {
    target?.close()
  }
}

/** However deep it lies; what has too long a path to be looked at counts as such. */
async function holdsWhatStays(folder: FolderHandle, { path, stays }: Merge): Promise<boolean> {
  let found = false
  const look = (at: WalkPosition, name: Buffer, isFolder: boolean): boolean => {
    const below = pathIn(at.path(MOST_PATH_BYTES), name)
    found ||= below === undefined || stays(`${path}/${pathText(below)}`, isFolder)
    return !found
  }
  await walk(
    folder,
    {
      entry: (_folder, name, at) => look(at, name, false),
      enter: (_folder, name, above) => look(above, name, true),
    },
    () => found,
  )
  return found
}

function journalOf({ restoresDir }: Places, serverId: string): string {
  return join(restoresDir, `${serverId}.json`)
}
