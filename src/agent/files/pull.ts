import { type IncomingMessage, request as requestPlain } from 'node:http'
import { request as requestSecure } from 'node:https'
import { percentDecoded } from '../../shared/kernel/path-text.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { AgentFailure } from '../failure.ts'
import { codeOf } from './folder-handle.ts'
import { cancelled } from './list.ts'
import { isPullPort, type PullConfig } from './pull-ports.ts'
import { reachableLookup, refuseUnreachable } from './reach.ts'
import type { ManyOptions } from './remove.ts'
import { denied } from './rules.ts'
import { writeFile } from './server-file.ts'

const MOST_REDIRECTS = 5
/** A source that sends nothing for so long is given up. */
const SILENT_MS = 30_000
const MIB = 1024 * 1024
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

/** What is fetched and where it goes. */
export interface PullOptions extends ManyOptions {
  readonly url: string
  readonly to: string
  readonly name: string | null
  readonly replace: boolean
  readonly maxBytes: number
  readonly maxMs: number
  /** How many bytes more the server may have on its disk. */
  readonly roomBytes: number
  /** Counts bytes that are about to be written with those of others; throws NO_SPACE. */
  readonly spend: (bytes: number) => void
  /** What may be asked beside public addresses at the ports of the web. */
  readonly allowed: PullConfig
  readonly clock: Clock
  readonly key: string
}

/** A file that was fetched. */
export interface Pulled {
  readonly path: string
  readonly size: number
  readonly sha256: string
  readonly etag: string
}

/**
 * Fetches a file by HTTP or HTTPS into a folder of the server. Each address is checked, and the very one that was checked is connected
 * to, at each redirect again: a name that means this machine or its network leads nowhere. The file appears when all of it has come.
 */
export async function pullInto(root: string, options: PullOptions): Promise<Pulled> {
  const { clock, maxMs, rules, to, replace, roomBytes, spend, progress } = options
  const late = new AbortController()
  const ended = new AbortController()
  void clock.sleep(maxMs, ended.signal).then(() => late.abort())
  const signal = AbortSignal.any([options.signal, late.signal])
  try {
    const { answer, url } = await follow(options, signal)
    try {
      const name = options.name ?? nameOf(answer, url)
      const path = ['', ...to.split('/').filter((part) => part !== ''), name].join('/')
      rules.refuseHidden(path, false)
      if (rules.isDenied(path)) throw denied(path)
      rules.check(path, { field: 'to' })
      const length = lengthOf(answer)
      if (length !== null && length > options.maxBytes) throw tooLarge(options.maxBytes)
      const upload = { path, offset: 0, size: length, sha256: null, ifMatch: null, ifNone: !replace }
      const content = bounded(answer, { maxBytes: options.maxBytes, progress })
      const facts = { roomBytes, spend, writing: new Set<string>(), nowMs: clock.nowMs() }
      const { size, sha256, etag } = await writeFile(root, { ...upload, ...facts }, content)
      return { path, size, sha256, etag }
    } finally {
      answer.destroy()
    }
  } catch (error) {
    if (options.signal.aborted) throw cancelled()
    if (late.signal.aborted) throw failed(`it took longer than ${Math.round(maxMs / 1000)} s`, error)
    if (error instanceof AgentFailure && error.code === 'ETAG_MISMATCH') {
      throw new AgentFailure('CONFLICT_STATE', 'There is a file of that name already', { field: 'to', cause: error })
    }
    throw error instanceof AgentFailure ? error : failed(messageOf(error), error)
  } finally {
    ended.abort()
  }
}

async function follow(options: PullOptions, signal: AbortSignal): Promise<{ answer: IncomingMessage; url: URL }> {
  let url = parsed(options.url)
  for (let redirects = 0; ; redirects++) {
    const answer = await ask(url, options.allowed, signal)
    const status = answer.statusCode ?? 0
    if (status === 200) return { answer, url }
    answer.destroy()
    const location = answer.headers.location
    if (!REDIRECTS.has(status) || location === undefined) throw failed(`the source answers with status ${status}`)
    if (redirects === MOST_REDIRECTS) throw failed(`it leads through more than ${MOST_REDIRECTS} redirects`)
    url = parsed(location, url)
  }
}

function parsed(text: string, base?: URL): URL {
  let url: URL
  try {
    url = new URL(text, base)
  } catch (cause) {
    throw new AgentFailure('PATH_INVALID', 'is no URL', { field: 'url', cause })
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new AgentFailure('PATH_INVALID', 'must be, and lead to, an address of http or https', { field: 'url' })
  }
  if (url.username !== '' || url.password !== '') {
    throw new AgentFailure('PATH_INVALID', 'must have no user name and password in it', { field: 'url' })
  }
  return url
}

function ask(
  url: URL,
  { allowedRanges = [], allowedPorts = [] }: PullConfig,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  if (!isPullPort(port, allowedPorts)) throw refusedPort(port)
  refuseUnreachable(url, allowedRanges)
  const lookup = reachableLookup(allowedRanges)
  return new Promise((resolve, reject) => {
    const send = url.protocol === 'https:' ? requestSecure : requestPlain
    const headers = { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'panel' }
    const request = send(url, { lookup, agent: false, headers, signal })
    request.setTimeout(SILENT_MS, () => request.destroy(new Error(`it has sent nothing for ${SILENT_MS / 1000} s`)))
    request.once('response', resolve)
    request.on('error', reject)
    request.end()
  })
}

async function* bounded(
  answer: IncomingMessage,
  { maxBytes, progress }: { readonly maxBytes: number; readonly progress: ManyOptions['progress'] },
): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const piece of answer) {
    bytes += piece.length
    if (bytes > maxBytes) throw tooLarge(maxBytes)
    progress({ entries: 0, bytes })
    yield piece
  }
  if (!answer.complete) throw failed('the connection ended before all bytes had come')
}

/** The name that the source gives it, or else the last one of its address: one name, whatever it says. */
function nameOf({ headers }: IncomingMessage, url: URL): string {
  const said = headers['content-disposition']?.split(';').map((part) => part.trim()) ?? []
  const given = said.find((part) => part.toLowerCase().startsWith('filename='))?.slice('filename='.length)
  const plain = given?.replace(/^"|"$/g, '') ?? percentDecoded(url.pathname)
  const name = [...(plain.split(/[/\\]/).findLast((part) => part !== '') ?? '')]
    .filter((char) => char >= ' ' && char !== '\u007f')
    .join('')
    .slice(0, 200)
  if (name === '' || name === '.' || name === '..') {
    throw new AgentFailure('PATH_INVALID', 'says no name for the file; give one', { field: 'name' })
  }
  return name
}

function lengthOf({ headers }: IncomingMessage): number | null {
  const text = headers['content-length']
  return text === undefined || headers['transfer-encoding'] !== undefined ? null : Number(text)
}

function refusedPort(port: number): AgentFailure {
  const message = `leads to port ${port}; files are fetched from 80, 443, 8080 and 8443, and pull.allowedPorts of agent.yaml can allow others`
  return new AgentFailure('PATH_INVALID', message, { field: 'url' })
}

function tooLarge(maxBytes: number): AgentFailure {
  return new AgentFailure('NO_SPACE', `The file is larger than the ${Math.floor(maxBytes / MIB)} MiB that it may have`)
}

function failed(reason: string, cause?: unknown): AgentFailure {
  return new AgentFailure('CANCELLED', `The file could not be fetched: ${reason}`, { cause })
}

function messageOf(error: unknown): string {
  const code = codeOf(error)
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'the name of the source is not known'
  return error instanceof Error ? error.message.slice(0, 200) : 'it ended'
}
