import { lookup as lookupName } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import { isReachable } from '../../../../../shared/platform/public-address.ts'
import { SourceFailure } from '../source/source.ts'

const CONNECT_MS = 10_000
const SILENT_MS = 60_000

/** Where an archive may be asked for by the panel itself. */
export interface ArchivePlace {
  readonly url: string
  /** Scheme, host and port. */
  readonly origins: readonly string[]
  /** The host of the source: whoever starts a migration has named it, so that it may be a private one. */
  readonly sourceHost: string
  /** Certificates are not checked. */
  readonly insecure: boolean
}

/**
 * The bytes of an archive of a source, asked for once: such URLs are good for one request. Nothing of this panel is sent along, no redirect
 * is followed, and what the source names beyond itself must have a public address. Throws a {@link SourceFailure}.
 */
export async function* fetchArchive(place: ArchivePlace, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const url = allowed(place)
  // Most panels never move in.
  const { Agent, request } = await import('undici')
  const isOwn = url.hostname === place.sourceHost
  const lookup = isOwn ? {} : { lookup: publicLookup }
  const connect = { timeout: CONNECT_MS, rejectUnauthorized: !place.insecure, ...lookup }
  const agent = new Agent({ connect, headersTimeout: SILENT_MS, bodyTimeout: SILENT_MS })
  try {
    const { statusCode, body } = await request(url, { dispatcher: agent, signal, headers: { accept: '*/*' } })
    if (statusCode !== 200) {
      body.destroy()
      body.on('error', () => undefined)
      throw new SourceFailure('broken', `${url.host} answers the download with status ${statusCode}`, {
        isTransient: true,
      })
    }
    for await (const piece of body) yield piece as Uint8Array // a body of bytes
  } catch (error) {
    if (error instanceof SourceFailure || signal.aborted) throw error
    const text = error instanceof Error ? error.message : String(error)
    throw new SourceFailure('broken', `${url.host} has not sent all of the archive: ${text}`, {
      isTransient: true,
      cause: error,
    })
  } finally {
    await agent.destroy()
  }
}

function allowed({ url: text, origins, sourceHost }: ArchivePlace): URL {
  const url = new URL(text)
  if (url.username !== '' || url.password !== '' || !origins.includes(url.origin)) {
    const advice = 'name it among archiveOrigins if that is where its archives lie'
    throw new SourceFailure('rejected', `The source has its archive at ${url.origin}, which is not its node; ${advice}`)
  }
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (url.hostname !== sourceHost && isIP(host) !== 0 && !isReachable(host, [])) throw isPrivate(host)
  return url
}

const publicLookup: LookupFunction = (name, { all }, done) => {
  lookupName(name, { all: true }).then(
    (found) => {
      const addresses = found.filter(({ address }) => isReachable(address, []))
      const [first] = addresses
      if (first === undefined) done(isPrivate(name), '', 0)
      else if (all === true) done(null, addresses)
      else done(null, first.address, first.family)
    },
    (error: Error) => done(error, '', 0),
  )
}

function isPrivate(host: string): SourceFailure {
  return new SourceFailure(
    'rejected',
    `The source has its archive at ${host.slice(0, 200)}, which is a private address`,
  )
}
