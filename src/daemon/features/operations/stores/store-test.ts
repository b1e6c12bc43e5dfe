import { randomBytes } from 'node:crypto'
import type { BackupStoreCheck, BackupStoreTest } from '../../../../shared/api/backup-stores.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { probeStore } from '../../../../shared/protocol/backups.ts'
import type { Gateway } from '../../../gateway/gateway.ts'
import type { StoreTickets } from '../../../gateway/store-tickets.ts'
import type { ObjectStore } from '../../../object-store/object-store.ts'
import { type ObjectStores, openStoreAccess } from './object-stores.ts'
import type { StoreRow } from './rows.ts'

/** What trying a store needs. */
export interface StoreTestDeps {
  readonly clock: Clock
  readonly stores: ObjectStores
  readonly tickets: StoreTickets
  readonly gateway: Pick<Gateway, 'request'>
}

/** Where what a test writes lies, relative to the prefix of the store; an id that no server has. */
const PROBES = 'panel-test'

/** Does with small objects what backups do with large ones, and removes them again. Stops at the first thing that fails. */
export async function testStore(
  deps: StoreTestDeps,
  row: StoreRow,
  { nodeId, signal }: { readonly nodeId: string | undefined; readonly signal: AbortSignal },
): Promise<BackupStoreTest> {
  const checks: BackupStoreCheck[] = []
  let freeBytes: number | null = null
  const check = async (from: BackupStoreCheck['from'], name: string, work: () => Promise<unknown>): Promise<void> => {
    if (checks.some(({ ok }) => !ok)) return
    const begun = deps.clock.monotonicMs()
    try {
      await work()
      checks.push({ from, name, ok: true, latencyMs: Math.round(deps.clock.monotonicMs() - begun), error: null })
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof PanelError)) throw error
      checks.push({ from, name, ok: false, latencyMs: null, error: error.message })
    }
  }
  if (row.kind === 's3') await testObjects(deps.stores, row, { check, signal })
  else if (nodeId === undefined) {
    const error = `${row.name} is a folder of each node; name the node from which it is to be tried`
    checks.push({ from: 'panel', name: 'folder', ok: false, latencyMs: null, error })
  }
  if (nodeId !== undefined) {
    await check('node', 'write, read and delete', async () => {
      const grant = { nodeId, ownerId: PROBES, mode: 'write', signal } as const
      const { access, close } = openStoreAccess(deps.tickets, row, grant)
      try {
        freeBytes = (await deps.gateway.request(nodeId, probeStore, { store: access }, { signal })).freeBytes
      } finally {
        close()
      }
    })
  }
  return { ok: checks.every(({ ok }) => ok), checks, freeBytes }
}

interface Checking {
  readonly check: (from: 'panel', name: string, work: () => Promise<unknown>) => Promise<void>
  readonly signal: AbortSignal
}

async function testObjects(stores: ObjectStores, row: StoreRow, { check, signal }: Checking): Promise<void> {
  const name = randomBytes(8).toString('hex')
  const [small, inParts] = [`${PROBES}/${name}`, `${PROBES}/${name}-parts`]
  const body = randomBytes(1024)
  let store: ObjectStore | undefined
  const asked = (): ObjectStore => {
    store ??= stores.of(row)
    return store
  }
  try {
    await check('panel', 'put', () => asked().put(small, body, signal))
    await check('panel', 'get', async () => expectBytes(await readAll(asked(), small, undefined, signal), body))
    await check('panel', 'range', async () => {
      const part = await readAll(asked(), small, { offset: 100, length: 200 }, signal)
      expectBytes(part, body.subarray(100, 300))
    })
    await check('panel', 'list', async () => {
      const { objects } = await asked().list({ prefix: small }, signal)
      if (objects.some(({ key, bytes }) => key === small && bytes === body.length)) return
      throw new PanelError('BACKUP_STORE_FAILED', 'what was stored a moment ago is not in the list')
    })
    await check('panel', 'multipart', async () => {
      const upload = { key: inParts, uploadId: await asked().begin(inParts, signal) }
      try {
        const part = await asked().part({ ...upload, number: 1 }, body, signal)
        await asked().complete(upload, [part], signal)
      } catch (error) {
        await asked()
          .abort(upload)
          .catch(() => undefined) // why it was to be aborted says more
        throw error
      }
      expectBytes(await readAll(asked(), inParts, undefined, signal), body)
    })
    await check('panel', 'delete', async () => {
      await asked().delete([small, inParts], signal)
      if ((await asked().head(small, signal)) === null) return
      throw new PanelError(
        'BACKUP_STORE_FAILED',
        'what was deleted is still there; is the bucket under a retention rule?',
      )
    })
  } finally {
    // Also where something in between has failed, or the client has gone away.
    await store?.delete([small, inParts]).catch(() => undefined)
  }
}

async function readAll(
  store: ObjectStore,
  key: string,
  range: { readonly offset: number; readonly length: number } | undefined,
  signal: AbortSignal,
): Promise<Buffer> {
  const { content } = await store.get(key, range, signal)
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of content) {
    bytes += piece.length
    if (bytes > 1_000_000) break // more than was stored: not equal in any case
    pieces.push(piece)
  }
  content.destroy()
  return Buffer.concat(pieces)
}

function expectBytes(found: Uint8Array, stored: Uint8Array): void {
  if (Buffer.compare(found, stored) === 0) return
  throw new PanelError('BACKUP_STORE_FAILED', 'other bytes come back than were stored')
}
