import { createHash } from 'node:crypto'
import { z } from 'zod'
import { isReachable } from '../../../../../shared/platform/public-address.ts'
import { dumpElsewhere, knownDatabase, loadDatabase } from '../../../servers/databases/database-copy.ts'
import type { DumpFacts } from '../../../servers/databases/dump.ts'
import { HostFailure } from '../../../servers/databases/host-failure.ts'
import { findMapped } from '../map.ts'
import { addressesOf } from './host-addresses.ts'
import { COPIED_DATABASE, passwordAtSource } from './import-database.ts'
import { wasStarted } from './place-files.ts'
import { type StepContext, StepDelay, StepRefusal, stepAction } from './step.ts'

/** What a database holds, in the map: its own thing, since a record may stay the same while rows change. */
export const DATABASE_CONTENT = 'database_content'

/**
 * Copies what a database of the source holds into the one that was made for it: read over the connection that games use, by the name and
 * password that the source shows, and written as the user of the new one. What is the same as before is left alone, and so is what somebody
 * has played on since.
 */
export const copyDatabase = stepAction({
  input: z.object({
    serverSourceId: z.string(),
    source: z.looseObject({
      id: z.string(),
      name: z.string().min(1).max(191),
      username: z.string().min(1).max(191),
      host: z.looseObject({ host: z.string().min(1).max(255), port: z.int().min(1).max(65_535) }),
    }),
  }),
  run: async (context, { serverSourceId, source }) => {
    const { deps, sourceFp, sourceId, signal, options } = context
    const { db, databases } = deps
    const mapped = await findMapped(db.read, { sourceFp, sourceType: 'database', sourceId })
    if (mapped?.targetType !== COPIED_DATABASE) {
      throw new StepRefusal('CONFLICT', 'It was taken over where it lies by a run before; what it holds is there', {
        isRetryable: false,
      })
    }
    const target = await knownDatabase(databases, mapped.targetId)
    const address = await addressOf(context, { serverSourceId, source })
    if (
      target.host.port === address.port &&
      target.row.name === source.name &&
      (await isSameHost(address, target.host.host))
    ) {
      throw new StepRefusal('CONFLICT', 'It is the database of the source itself', { isRetryable: false })
    }
    const known = await findMapped(db.read, { sourceFp, sourceType: DATABASE_CONTENT, sourceId })
    // One that was deleted here and made anew holds nothing yet.
    const before = known?.targetId === target.row.id ? known : undefined
    if (before !== undefined) {
      if ((await hashOf(dump(context, address, facts()))) === before.contentHash) {
        return () => Promise.resolve({ kind: 'skipped', reason: 'unchanged' })
      }
      const serverId = target.row.serverId ?? ''
      if (options.conflicts.files === 'fail' && (await wasStarted(context, serverId, before.updatedAt))) {
        throw new StepRefusal(
          'DATABASE_EXISTS',
          'The server was started here since its database was copied; replace it by the option conflicts.files, or leave it',
        )
      }
    }
    const found = facts()
    const hash = createHash('sha256')
    const content = hashed(dump(context, address, found), hash)
    const report = (bytes: number): void => context.progress({ bytes, totalBytes: null, entries: found.rows })
    let failure: unknown
    const watched = async function* (): AsyncGenerator<Uint8Array> {
      try {
        yield* content
      } catch (error) {
        failure = error
        throw error
      }
    }
    const leftOut = await loadDatabase(databases, target, { content: watched(), signal, report }).catch((error) => {
      throw failure ?? error
    })
    const { tables, rows, left } = found
    const place = `${target.host.host}:${target.host.port}`
    const warnings = [
      `it is ${target.row.name} on ${place} here, with a user and password of its own: change what the game connects with`,
      ...left.map((what) => `not taken: ${what}`),
      ...leftOut,
    ]
    const copied = {
      type: 'database',
      id: target.row.id,
      created: before === undefined,
      contentHash: hash.digest('hex'),
    }
    return () =>
      Promise.resolve({
        kind: 'done',
        target: copied,
        notes: { tables, rows, replaced: before !== undefined, warnings },
      })
  },
})

interface Address {
  /** As it is connected to: looked up once. */
  readonly host: string
  readonly port: number
  readonly username: string
  readonly password: string
  readonly name: string
}

function facts(): DumpFacts {
  return { tables: 0, rows: 0, left: [] }
}

/** By what it is reached, with the password as the source shows it now. The source names any host: only some of them are asked. */
async function addressOf(
  context: StepContext,
  {
    serverSourceId,
    source,
  }: {
    readonly serverSourceId: string
    readonly source: {
      readonly id: string
      readonly name: string
      readonly username: string
      readonly host: { readonly host: string; readonly port: number }
    }
  },
): Promise<Address> {
  const { options, sourceHost } = context
  const password = await passwordAtSource(context, { serverSourceId, databaseId: source.id })
  const { name, username } = source
  const { host, port } = source.host
  const names = [host.toLowerCase(), `${host}:${port}`.toLowerCase()]
  // A private address of the source means another machine here, unless whoever moves it says that it does not.
  const isNamed = options.databaseHosts.some((one) => names.includes(one))
  const found = await addressesOf(host)
  const isOwn = host.toLowerCase() === sourceHost.toLowerCase() && !found.some(isLoopback)
  const usable = found.find((address) => isNamed || isOwn || isReachable(address, []))
  if (usable === undefined) {
    const why = found.length === 0 ? 'its name is not known here' : 'its address is a private one'
    throw new StepRefusal(
      'DATABASE_HOST_REFUSED',
      `The database host ${host}:${port} of the source is not asked: ${why}; name it by the option databaseHosts if this panel reaches it`,
    )
  }
  return { host: usable, port, username, password, name }
}

function isLoopback(address: string): boolean {
  return address === '::1' || address.startsWith('127.')
}

async function isSameHost({ host }: Address, other: string): Promise<boolean> {
  return (await addressesOf(other)).includes(host)
}

async function* dump({ signal }: StepContext, address: Address, found: DumpFacts): AsyncGenerator<Uint8Array> {
  try {
    yield* dumpElsewhere({ engine: 'mysql', ...address }, { facts: found, signal })
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error
    if (PASSING.has(error.reason)) throw new StepDelay('DATABASE_UNREACHABLE', error.message, { cause: error })
    throw new StepRefusal('DATABASE_UNREACHABLE', error.message)
  }
}

/** What may be over by the next attempt. */
const PASSING: ReadonlySet<string> = new Set(['timeout', 'connection', 'unreachable', 'dns'])

async function* hashed(
  content: AsyncIterable<Uint8Array>,
  hash: ReturnType<typeof createHash>,
): AsyncGenerator<Uint8Array> {
  for await (const piece of content) {
    hash.update(piece)
    yield piece
  }
}

async function hashOf(content: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of content) hash.update(piece)
  return hash.digest('hex')
}
