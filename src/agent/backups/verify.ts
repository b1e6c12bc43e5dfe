import { createHash } from 'node:crypto'
import type { BackupKind } from '../../shared/protocol/backups.ts'
import { AgentFailure } from '../failure.ts'
import { cancelled } from '../files/list.ts'
import { shownPath } from './archive-backup.ts'
import { type Backup, openBackup, openBytes } from './contents.ts'
import { archiveKey, entriesOf } from './manifest.ts'
import { hashesOf, opened, PACKS, PackReader, packKey, Repository } from './repository.ts'
import type { ObjectStore } from './store.ts'

const MOST_PATHS = 100
const MOST_REASON = 300

/** What is wrong with a backup, and which of its files it is wrong with. */
export interface Damage {
  readonly backupId: string
  readonly reason: string
  readonly paths: string[]
  readonly pathCount: number
}

/** How backups are checked. `deep`: every byte; else that every part is there and has its size. */
export interface VerifyOptions {
  readonly deep: boolean
  readonly signal: AbortSignal
  progress(report: { readonly entries: number; readonly bytes: number; readonly totalBytes: number | null }): void
}

/** Checks backups of one server; damage is answered and does not end it. */
export async function verify(
  store: ObjectStore,
  wanted: readonly { readonly backupId: string; readonly kind: BackupKind }[],
  options: VerifyOptions,
): Promise<{ bytes: number; damaged: Damage[] }> {
  const count = { bytes: 0 }
  const watch: Watch = {
    ...options,
    read: (bytes) => {
      count.bytes += bytes
      options.progress({ entries: 0, bytes: count.bytes, totalBytes: null })
    },
  }
  const damaged: Damage[] = []
  const increments: Backup[] = []
  for (const one of wanted) {
    try {
      const backup = await openBackup(store, one, options.signal)
      if (one.kind === 'incremental') increments.push(backup)
      else damaged.push(...(await verifyArchive(backup, watch)))
    } catch (error) {
      damaged.push({ backupId: one.backupId, ...noneOf(error, options.signal) })
    }
  }
  if (increments.length > 0) damaged.push(...(await verifyIncrements(store, increments, watch)))
  return { bytes: count.bytes, damaged }
}

interface Watch extends VerifyOptions {
  readonly read: (bytes: number) => void
}

async function verifyArchive(backup: Backup, watch: Watch): Promise<Damage[]> {
  const { store, head, signal } = backup
  const key = archiveKey(head.backupId, head.compression)
  const bytes = await store.size(key)
  if (bytes !== head.archiveBytes) {
    const found = bytes === undefined ? 'is not there' : `has ${bytes} bytes instead of ${head.archiveBytes}`
    return [{ backupId: head.backupId, reason: `its archive ${found}`, paths: [], pathCount: 0 }]
  }
  if (!watch.deep) {
    for await (const _ of entriesOf(store, head, signal)); // its hash is looked at at the end
    return []
  }
  const hash = createHash('sha256')
  for await (const piece of store.read(key, { offset: 0, reuses: true }, signal)) {
    hash.update(piece)
    watch.read(piece.length)
  }
  if (hash.digest('hex') === head.sha256) {
    for await (const _ of entriesOf(store, head, signal));
    return []
  }
  const found = new Found(head.backupId, 'its archive has another hash')
  const source = await openBytes(backup, { reuses: true })
  try {
    for await (const entry of entriesOf(store, head, signal)) {
      if (entry.kind !== 'file' && entry.kind !== 'extra') continue
      try {
        for await (const piece of source.of(entry)) watch.read(piece.length)
      } catch (error) {
        if (!isDamage(error)) throw error
        found.add(shownPath(entry.path))
        await source.close() // the next one begins at a member of its own
      }
    }
  } finally {
    await source.close()
  }
  return [found.damage]
}

/** Increments share their pieces: each piece is read once, and then looked for in every backup. */
async function verifyIncrements(store: ObjectStore, backups: readonly Backup[], watch: Watch): Promise<Damage[]> {
  const { signal } = watch
  const repository = await Repository.open(store, signal)
  const { table } = repository
  const packs = new Map<string, number>()
  for await (const { key, bytes } of store.list(PACKS)) packs.set(key, bytes)
  /** 1: needed, 2: damaged. */
  const states = new Uint8Array(table.slots)
  for (const { head } of backups) {
    try {
      for await (const { chunks } of entriesOf(store, head, signal)) {
        for (const hash of hashesOf(chunks)) {
          const slot = table.slotOf(hash)
          if (slot !== undefined) states[slot] = 1
        }
      }
    } catch (error) {
      if (!isDamage(error)) throw error // it is found again below
    }
  }
  await checkPieces(store, repository, { states, packs, watch })
  const damaged: Damage[] = []
  for (const { head } of backups) {
    const found = new Found(head.backupId, 'some of its pieces are damaged or not there')
    try {
      for await (const { path, chunks } of entriesOf(store, head, signal)) {
        for (const hash of hashesOf(chunks)) {
          const slot = table.slotOf(hash)
          if (slot !== undefined && states[slot] !== 2) continue
          found.add(shownPath(path))
          break
        }
      }
      if (found.damage.pathCount > 0) damaged.push(found.damage)
    } catch (error) {
      damaged.push({ backupId: head.backupId, ...noneOf(error, signal) })
    }
  }
  return damaged
}

async function checkPieces(
  store: ObjectStore,
  repository: Repository,
  {
    states,
    packs,
    watch,
  }: { readonly states: Uint8Array; readonly packs: ReadonlyMap<string, number>; readonly watch: Watch },
): Promise<void> {
  const { table } = repository
  const needed = [...table.all()]
    .filter((slot) => states[slot] === 1)
    .sort((a, b) => table.at(a).pack - table.at(b).pack || table.at(a).offset - table.at(b).offset)
  const reader = new PackReader(store, repository, watch.signal)
  try {
    for (const slot of needed) {
      if (watch.signal.aborted) throw cancelled()
      const place = table.at(slot)
      const size = packs.get(packKey(repository.packs[place.pack] ?? ''))
      let isWhole = size !== undefined && place.offset + place.storedBytes <= size
      if (isWhole && watch.deep) {
        try {
          await opened(await reader.stored(place), place, table.hashAt(slot))
          watch.read(place.storedBytes)
        } catch (error) {
          if (!isDamage(error)) throw error
          isWhole = false
        }
      }
      if (!isWhole) states[slot] = 2
    }
  } finally {
    await reader.close()
  }
}

class Found {
  readonly #damage: { backupId: string; reason: string; paths: string[]; pathCount: number }

  constructor(backupId: string, reason: string) {
    this.#damage = { backupId, reason, paths: [], pathCount: 0 }
  }

  get damage(): Damage {
    return this.#damage
  }

  add(path: string): void {
    this.#damage.pathCount++
    if (this.#damage.paths.length < MOST_PATHS) this.#damage.paths.push(path)
  }
}

/** A backup of which no file can be named. */
function noneOf(error: unknown, signal: AbortSignal): Omit<Damage, 'backupId'> {
  if (signal.aborted || !isDamage(error)) throw error
  return { reason: error.message.slice(0, MOST_REASON), paths: [], pathCount: 0 }
}

function isDamage(error: unknown): error is AgentFailure {
  return error instanceof AgentFailure && ['CHECKSUM', 'ARCHIVE_UNSUPPORTED', 'NOT_FOUND'].includes(error.code)
}
