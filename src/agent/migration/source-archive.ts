import { type IncomingMessage, request as requestPlain } from 'node:http'
import { request as requestSecure } from 'node:https'
import { AgentFailure } from '../failure.ts'
import { reachableLookup, refuseUnreachable } from '../files/reach.ts'
import { cutOff } from './arrival.ts'

/** A source that sends nothing for so long is given up. */
const SILENT_MS = 60_000

/** Where an archive is asked for. */
export interface ArchiveUrl {
  readonly url: string
  /** Scheme, host and port that may be asked. */
  readonly origins: readonly string[]
  readonly insecure: boolean
  /** Private ranges that the machine's owner allows. */
  readonly allowedRanges: readonly string[]
}

/**
 * Asks for an archive once: such URLs are good for one request, so there is no look before and no second try. Nothing of this node is
 * sent along, and no redirect is followed. Throws PATH_INVALID for what may not be asked, and INTERRUPTED for all that goes wrong.
 */
export async function openArchive(source: ArchiveUrl, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
  const url = checkedUrl(source)
  const answer = await ask(url, source, signal).catch((error: unknown) => {
    throw error instanceof AgentFailure ? error : cutOff(error)
  })
  if (answer.statusCode === 200) return whole(answer)
  answer.destroy()
  throw cutOff(new Error(`the source answers with status ${answer.statusCode}`))
}

function checkedUrl({ url: text, origins, allowedRanges }: ArchiveUrl): URL {
  const url = parsed(text)
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    throw wrong('is no URL of http or https')
  if (url.username !== '' || url.password !== '') throw wrong('must have no user name and password in it')
  if (!origins.some((origin) => parsed(origin)?.origin === url.origin)) {
    throw wrong(
      `leads to ${url.origin.slice(0, 300)}, which is not the source's node; the operator can allow it for this move`,
    )
  }
  refuseUnreachable(url, allowedRanges)
  return url
}

function ask(url: URL, { insecure, allowedRanges }: ArchiveUrl, signal: AbortSignal): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const options = {
      lookup: reachableLookup(allowedRanges),
      agent: false as const,
      headers: { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'panel' },
      signal,
    }
    const request =
      url.protocol === 'https:'
        ? requestSecure(url, { ...options, rejectUnauthorized: !insecure })
        : requestPlain(url, options)
    request.setTimeout(SILENT_MS, () => request.destroy(new Error(`it has sent nothing for ${SILENT_MS / 1000} s`)))
    request.once('response', resolve)
    request.on('error', reject)
    request.end()
  })
}

async function* whole(answer: IncomingMessage): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of answer) yield piece
    if (!answer.complete) throw cutOff(new Error('the connection ended before all bytes had come'))
  } finally {
    answer.destroy()
  }
}

function parsed(text: string): URL | undefined {
  try {
    return new URL(text)
  } catch {
    return undefined // said by the caller
  }
}

function wrong(reason: string): AgentFailure {
  return new AgentFailure('PATH_INVALID', reason, { field: 'url' })
}
