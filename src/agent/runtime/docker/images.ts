import { record } from '../../engine/container-state.ts'
import { type Engine, EngineRefusal, isMissing } from '../../engine/engine.ts'
import { AgentFailure } from '../../failure.ts'

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
  readonly progress: (text: string) => void
}

/** The account at a registry. */
export interface Credentials {
  readonly username: string
  readonly password: string
}

/** A pull that brings no progress for so long is given up. */
const QUIET_MS = 120_000
const MOST_LINE_BYTES = 64 * 1024

/** A name of an image as registries take it: no path, no option, no blank. */
const IMAGE = /^[a-z0-9][A-Za-z0-9._\-/:@]{0,299}$/

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

/** Brings an image from its registry. Rejects with an AgentFailure of UNSUPPORTED that says why it could not. */
export async function pullImage(engine: Engine, name: string, { credentials, progress }: PullOptions): Promise<void> {
  const tagged = /[:@][^/]*$/.test(checkedName(name)) ? name : `${name}:latest`
  const path = `/images/create?fromImage=${encodeURIComponent(tagged)}`
  try {
    const headers = credentials === undefined ? {} : { 'x-registry-auth': authOf(name, credentials) }
    const answer = await engine.stream({ method: 'POST', path, headers })
    answer.setTimeout(QUIET_MS, () => answer.destroy(new Error(`nothing has come for ${QUIET_MS / 1000} s`)))
    const layers = new Map<string, Layer>()
    let text = ''
    for await (const chunk of answer.setEncoding('utf8') as AsyncIterable<string>) {
      const lines = (text + chunk).split('\n')
      text = lines.pop() ?? ''
      if (text.length > MOST_LINE_BYTES) throw new Error('the engine answers with what is no progress')
      for (const line of lines) takeLine(line, layers)
      progress(summary(layers))
    }
    if (text.trim() !== '') takeLine(text, layers)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new AgentFailure('UNSUPPORTED', `The image ${name} could not be pulled: ${reason}`.slice(0, 500))
  }
}

interface Layer {
  readonly current: number
  readonly total: number
}

function takeLine(line: string, layers: Map<string, Layer>): void {
  if (line.trim() === '') return
  const said = record(JSON.parse(line))
  if (typeof said['error'] === 'string') throw new EngineRefusal(500, said['error'].slice(0, 300))
  const { id, progressDetail } = said
  if (typeof id !== 'string' || layers.size > 1000) return
  const { current, total } = record(progressDetail ?? {})
  if (said['status'] === 'Downloading' && typeof current === 'number' && typeof total === 'number') {
    layers.set(id, { current, total })
  } else if (said['status'] === 'Download complete') {
    const size = layers.get(id)?.total ?? 0
    layers.set(id, { current: size, total: size })
  }
}

function summary(layers: ReadonlyMap<string, Layer>): string {
  let [current, total] = [0, 0]
  for (const layer of layers.values()) {
    current += layer.current
    total += layer.total
  }
  const mib = (bytes: number): string => (bytes / 1024 / 1024).toFixed(1)
  return total === 0 ? 'waiting for the registry' : `${mib(current)} of ${mib(total)} MiB`
}

/** The registry of an image: what stands before the first slash where that is a host; else Docker's own. */
export function registryOf(name: string): string {
  const [first = '', ...rest] = checkedName(name).split('/')
  const isHost = rest.length > 0 && (first.includes('.') || first.includes(':') || first === 'localhost')
  return isHost ? first : 'docker.io'
}

/** Engines want the padding that `base64url` leaves out. */
function authOf(name: string, { username, password }: Credentials): string {
  const account = JSON.stringify({ username, password, serveraddress: registryOf(name) })
  return Buffer.from(account).toString('base64').replaceAll('+', '-').replaceAll('/', '_')
}

function checkedName(name: string): string {
  if (!IMAGE.test(name)) throw new AgentFailure('BAD_REQUEST', 'The name of the image is not valid')
  return name
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : []
}
