import { mkdir } from 'node:fs/promises'
import { AgentFailure } from '../failure.ts'
import { removeFolder } from '../files/tree.ts'
import { entriesOf, keysOf, readHead } from './manifest.ts'
import { hashesOf, opened, PACKS, PackReader, PackWriter, packKey, Repository, readIndex } from './repository.ts'
import type { ObjectStore } from './store.ts'

/** A pack of which more than this share is not needed any more is written anew without it. */
const WASTE_SHARE = 0.3
/** More indexes than this are made one. */
const MOST_INDEXES = 20
const FOLDER = /^backups\/([A-Za-z0-9_-]{1,64})\//

/** How a store is tidied. */
export interface PruneOptions {
  /** Backups of which nothing is removed even when they are not whole. */
  readonly keep: ReadonlySet<string>
  readonly dryRun: boolean
  /** Names new packs: nobody else has it. */
  readonly key: string
  readonly workFolder: string
  readonly signal: AbortSignal
  progress(report: { readonly entries: number; readonly bytes: number; readonly totalBytes: number | null }): void
}

/** Removes a backup: first what says that it is there, so that a removal that is cut off leaves none with something missing. */
export async function removeBackup(store: ObjectStore, backupId: string): Promise<number> {
  const { head, folder } = keysOf(backupId)
  let freed = 0
  const keys: string[] = []
  for await (const { key, bytes } of store.list(folder)) {
    freed += bytes
    if (key !== head) keys.push(key)
  }
  await store.remove([head])
  await store.remove(keys)
  return freed
}

/** Whether a store has pieces of increments. */
export async function hasRepository(store: ObjectStore): Promise<boolean> {
  for await (const _ of store.list(PACKS)) return true
  return false
}

/**
 * Removes what no backup needs. New packs and their index are there before anything is removed, and the old indexes go before the packs that
 * they name: whenever it is cut off, every backup has all of its pieces, and the next one goes on.
 */
export async function prune(
  store: ObjectStore,
  options: PruneOptions,
): Promise<{ freedBytes: number; storedBytes: number }> {
  const { signal, dryRun } = options
  const objects = new Map<string, number>()
  for await (const { key, bytes } of store.list('')) objects.set(key, bytes)
  const before = sum(objects.values())
  const ids = new Set([...objects.keys()].flatMap((key) => FOLDER.exec(key)?.[1] ?? []))
  const whole = [...ids].filter((id) => objects.has(keysOf(id).head))
  const lost = [...objects.keys()].filter((key) => {
    const id = FOLDER.exec(key)?.[1]
    return id !== undefined && !objects.has(keysOf(id).head) && !options.keep.has(id)
  })
  if (!dryRun) await store.remove(lost)
  const lostBytes = sum(lost.map((key) => objects.get(key) ?? 0))
  const repository = await Repository.open(store, signal)
  if (repository.unread.length > 0) {
    const message = `An index of the store cannot be read (${repository.unread[0]}): nothing is removed that it may name`
    throw new AgentFailure('CHECKSUM', message)
  }
  const used = await markUsed(store, repository, whole, options)
  const plan = planPacks(repository, used, objects)
  const isWorth = plan.removed.length > 0 || plan.rewritten.size > 0 || repository.indexes.length > MOST_INDEXES
  if (dryRun) return { freedBytes: lostBytes + plan.freedBytes, storedBytes: before - lostBytes - plan.freedBytes }
  if (isWorth) await rewrite(store, repository, { ...options, used, plan })
  await store.remove(plan.orphans)
  let after = 0
  for await (const { bytes } of store.list('')) after += bytes
  return { freedBytes: Math.max(0, before - after), storedBytes: after }
}

/** Which pieces the backups are made of, by their slots in the table. */
async function markUsed(
  store: ObjectStore,
  { table }: Repository,
  backupIds: readonly string[],
  { signal, progress }: PruneOptions,
): Promise<Uint8Array> {
  const used = new Uint8Array(table.slots)
  for (const [number, backupId] of backupIds.entries()) {
    const head = await readHead(store, backupId, signal)
    if (head?.kind !== 'incremental') continue
    for await (const { chunks } of entriesOf(store, head, signal)) {
      for (const hash of hashesOf(chunks)) {
        const slot = table.slotOf(hash)
        if (slot !== undefined) used[slot] = 1
      }
    }
    progress({ entries: number + 1, bytes: 0, totalBytes: null })
  }
  return used
}

interface Plan {
  /** Packs that go, by their numbers: those of which nothing is needed, and those that are written anew. */
  readonly removed: readonly number[]
  readonly rewritten: ReadonlySet<number>
  /** Packs that no index names. */
  readonly orphans: readonly string[]
  readonly freedBytes: number
}

function planPacks(repository: Repository, used: Uint8Array, objects: ReadonlyMap<string, number>): Plan {
  const needed = new Float64Array(repository.packs.length)
  for (const slot of repository.table.all()) {
    const { pack, storedBytes } = repository.table.at(slot)
    if (used[slot] === 1) needed[pack] = (needed[pack] ?? 0) + storedBytes
  }
  const named = new Set(repository.packs.map(packKey))
  const orphans = [...objects.keys()].filter((key) => key.startsWith(PACKS) && !named.has(key))
  const removed: number[] = []
  const rewritten = new Set<number>()
  let freedBytes = sum(orphans.map((key) => objects.get(key) ?? 0))
  for (const [number, name] of repository.packs.entries()) {
    const bytes = objects.get(packKey(name)) ?? 0
    const waste = bytes - (needed[number] ?? 0)
    if (needed[number] === 0) removed.push(number)
    else if (waste > bytes * WASTE_SHARE) rewritten.add(number)
    else continue
    freedBytes += waste
  }
  return { removed, rewritten, orphans, freedBytes }
}

async function rewrite(
  store: ObjectStore,
  repository: Repository,
  { key, workFolder, signal, used, plan, progress }: PruneOptions & { readonly used: Uint8Array; readonly plan: Plan },
): Promise<void> {
  await mkdir(workFolder, { recursive: true, mode: 0o700 })
  const fresh = new Repository()
  const writer = await PackWriter.open({ store, repository: fresh, key, workFolder, signal, spend: () => {} })
  const reader = new PackReader(store, repository, signal)
  try {
    const { table } = repository
    const moved = [...table.all()]
      .filter((slot) => used[slot] === 1 && plan.rewritten.has(table.at(slot).pack))
      .sort((a, b) => table.at(a).pack - table.at(b).pack || table.at(a).offset - table.at(b).offset)
    let bytes = 0
    for (const slot of moved) {
      const place = table.at(slot)
      const hash = Buffer.from(table.hashAt(slot))
      const stored = Buffer.from(await reader.stored(place))
      // What is damaged stays where it is found by a check: it ends this, and nothing was removed.
      await opened(stored, place, hash)
      await writer.addStored(hash, stored, place.bytes)
      bytes += stored.length
      progress({ entries: 0, bytes, totalBytes: null })
    }
    const gone = new Set([...plan.removed, ...plan.rewritten].map((number) => repository.packs[number]))
    for (const index of repository.indexes) {
      for await (const line of readIndex(store, index, signal)) if (!gone.has(line.pack)) await writer.keep(line)
    }
    await writer.end()
    await store.remove(repository.indexes)
    await store.remove([...gone].flatMap((name) => (name === undefined ? [] : [packKey(name)])))
  } finally {
    await reader.close()
    await writer.close()
    await removeFolder(workFolder)
  }
}

function sum(numbers: Iterable<number>): number {
  let all = 0
  for (const number of numbers) all += number
  return all
}
