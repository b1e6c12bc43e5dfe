import { record } from '../../engine/container-state.ts'
import { type Engine, EngineRefusal, isMissing, reasonOf } from '../../engine/engine.ts'
import { AgentFailure } from '../../failure.ts'
import { isImageName, registryOf, withTag } from './image-name.ts'

/** What an image says of how it is started. */
export interface ImageFacts {
  readonly id: string
  /** Its own entrypoint evaluates the variable STARTUP, as images made for game panels do. */
  readonly hasEntrypoint: boolean
}

/** What an image is pulled with. */
export interface PullOptions {
  readonly credentials: Credentials | undefined
  /** Called with how far it is, as often as the engine says it. */
  readonly progress: (report: PullProgress) => void
  /** Ends the pull. */
  readonly signal: AbortSignal
}

/** How far a pull is: the bytes of the layers that are known so far; 0 of 0 before the registry has answered. */
export interface PullProgress {
  readonly doneBytes: number
  readonly totalBytes: number
}

/** The account at a registry. */
export interface Credentials {
  readonly username: string
  readonly password: string
}

/** A pull that brings no progress for so long is given up, and one that goes on for longer than any image needs. */
const QUIET_MS = 120_000
const LONGEST_MS = 6 * 3_600_000
const MOST_LINE_BYTES = 64 * 1024
const MOST_LAYERS = 1000

/** The facts of an image that is present; `undefined` when it is not. */
export async function presentImage(engine: Engine, name: string): Promise<ImageFacts | undefined> {
  try {
    const image = record(await engine.json({ method: 'GET', path: `/images/${checkedName(name)}/json` }))
    const config = record(image['Config'] ?? {})
    const words = [...textsOf(config['Entrypoint']), ...textsOf(config['Cmd'])]
    return { id: String(image['Id']), hasEntrypoint: words.some((word) => word.endsWith('/entrypoint.sh')) }
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/**
 * Brings an image from its registry. Rejects with an AgentFailure: of UNSUPPORTED that says why it could not, and with the
 * reason of the signal, or INTERRUPTED, when that ended it.
 */
export async function pullImage(engine: Engine, name: string, options: PullOptions): Promise<void> {
  const { credentials, progress, signal } = options
  const path = `/images/create?fromImage=${encodeURIComponent(withTag(checkedName(name)))}`
  try {
    const headers = credentials === undefined ? {} : { 'x-registry-auth': authOf(name, credentials) }
    const limit = AbortSignal.any([signal, AbortSignal.timeout(LONGEST_MS)])
    const answer = await engine.stream({ method: 'POST', path, headers, signal: limit })
    answer.setTimeout(QUIET_MS, () => answer.destroy(new Error(`nothing has come for ${QUIET_MS / 1000} s`)))
    const layers = new Map<string, PullProgress>()
    let text = ''
    for await (const chunk of answer.setEncoding('utf8') as AsyncIterable<string>) {
      const lines = (text + chunk).split('\n')
      text = lines.pop() ?? ''
      if (text.length > MOST_LINE_BYTES) throw new Error(NO_PROGRESS)
      for (const line of lines) takeLine(line, layers)
      progress(sumOf(layers))
    }
    if (text.trim() !== '') takeLine(text, layers)
  } catch (error) {
    if (signal.aborted) {
      const { reason } = signal
      throw reason instanceof AgentFailure ? reason : new AgentFailure('INTERRUPTED', 'The pull was called off')
    }
    const reason = error instanceof Error ? error.message : String(error)
    throw new AgentFailure('UNSUPPORTED', `The image ${name} could not be pulled: ${reason}`.slice(0, 500))
  }
}

const NO_PROGRESS = 'the engine answers with what is no progress'

function takeLine(line: string, layers: Map<string, PullProgress>): void {
  if (line.trim() === '') return
  const { error, id, progressDetail, status } = record(parsed(line))
  if (typeof error === 'string') throw new EngineRefusal(500, reasonOf(error))
  if (typeof id !== 'string' || layers.size > MOST_LAYERS) return
  const { current, total } = record(progressDetail ?? {})
  if (status === 'Downloading' && isCount(current) && isCount(total)) {
    layers.set(id, { doneBytes: current, totalBytes: total })
  } else if (status === 'Download complete') {
    const { totalBytes } = layers.get(id) ?? { totalBytes: 0 }
    layers.set(id, { doneBytes: totalBytes, totalBytes })
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    throw new Error(NO_PROGRESS)
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

function sumOf(layers: ReadonlyMap<string, PullProgress>): PullProgress {
  let [doneBytes, totalBytes] = [0, 0]
  for (const layer of layers.values()) {
    doneBytes += layer.doneBytes
    totalBytes += layer.totalBytes
  }
  return { doneBytes, totalBytes }
}

/** Engines want the padding that `base64url` leaves out. */
function authOf(name: string, { username, password }: Credentials): string {
  const account = JSON.stringify({ username, password, serveraddress: registryOf(name) })
  return Buffer.from(account).toString('base64').replaceAll('+', '-').replaceAll('/', '_')
}

function checkedName(name: string): string {
  if (!isImageName(name))
    throw new AgentFailure(
      'BAD_REQUEST',
      'The name of the image is not valid; it is written as registry.example/path/name:tag',
    )
  return name
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : []
}
