import { MOST_FRAME_BYTES, type ToPlugin } from '../shared/protocol/plugin-frames.ts'
import type { Channel } from './channel.ts'
import { type PanelClient, PanelRefusal } from './panel-client.ts'

/** What a handler is given and what it may answer is said in docs/plugins.md. */
type Handler = (input: unknown) => unknown

/** What the plugin's `activate` has returned. */
export interface Loaded {
  readonly handlers: ReadonlyMap<string, Handler>
  readonly deactivate: (() => unknown) | undefined
}

/** Room for what stands around an answer in its frame. */
const MOST_ANSWER = MOST_FRAME_BYTES - 64 * 1024

/** Loads the plugin from the working folder and activates it. Fails with a sentence that says what is missing. */
export async function activate(frame: ToPlugin & { t: 'start' }, panel: PanelClient): Promise<Loaded> {
  // Through the working folder: the plugin's user may not be able to enter the folders above it.
  const path = frame.main.split('/').map(encodeURIComponent).join('/')
  const module: unknown = await import(`file:///proc/self/cwd/${path}`)
  const start = member(module, 'activate') ?? member(module, 'default')
  if (typeof start !== 'function') {
    throw new Error(`${frame.main} must export a function: export async function activate(panel) {}`)
  }
  const returned: unknown = await start(panelFor(frame, panel))
  const given = member(returned, 'handlers')
  const handlers = new Map<string, Handler>()
  for (const name of frame.handlers) {
    const handler = member(given, name)
    if (typeof handler !== 'function') {
      throw new Error(`the manifest names the handler ${name}; activate must return it in handlers`)
    }
    handlers.set(name, (input) => handler.call(given, input))
  }
  const deactivate = member(returned, 'deactivate')
  return { handlers, deactivate: typeof deactivate === 'function' ? () => deactivate.call(returned) : undefined }
}

/** An activated plugin: answers calls of the daemon. */
export class Activated {
  readonly #channel: Channel
  readonly #loaded: Loaded

  constructor(channel: Channel, loaded: Loaded) {
    this.#channel = channel
    this.#loaded = loaded
  }

  async call(id: number, name: string, input: unknown): Promise<void> {
    try {
      const value = (await this.#loaded.handlers.get(name)?.(input)) ?? null
      const size = Buffer.byteLength(JSON.stringify(value))
      if (size > MOST_ANSWER) throw new Error(`${name} answered ${size} bytes; at most ${MOST_ANSWER} may be`)
      this.#channel.send({ t: 'result', id, value })
    } catch (error) {
      const { message, stack = '' } = error instanceof Error ? error : new Error(String(error))
      const code = error instanceof RouteRefusal ? { code: error.code } : {}
      this.#channel.send({ t: 'error', id, message, stack, ...code })
    }
  }

  async deactivate(): Promise<void> {
    try {
      await this.#loaded.deactivate?.()
    } catch (error) {
      // It is about to end; the daemon notes what stands on stderr.
      console.error(error)
    }
  }
}

/** A route does not do what its caller asks for. */
class RouteRefusal extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** What the plugin sees of the panel. */
function panelFor({ name, config }: ToPlugin & { t: 'start' }, panel: PanelClient) {
  const log = (level: 'debug' | 'info' | 'warn' | 'error') => (text: unknown, fields?: unknown) =>
    panel.log(level, text, fields)
  return Object.freeze({
    name,
    config,
    log: Object.freeze({ debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }),
    storage: Object.freeze({
      get: (key: unknown) => panel.ask('storage.get', { key }),
      set: (key: unknown, value: unknown) => panel.ask('storage.set', { key, value: value ?? null }),
      delete: (key: unknown) => panel.ask('storage.delete', { key }),
      list: (prefix: unknown = '') => panel.ask('storage.list', { prefix }),
    }),
    /** Calls the panel's JSON API with the plugin's rights; resolves with `data`. */
    api: (method: unknown, path: unknown, parts: object = {}) => panel.ask('api', { ...parts, method, path }),
    /** The refusal of a route, to be thrown. */
    refusal: (code: string, message: string) => new RouteRefusal(code, message),
    PanelRefusal,
  })
}

function member(of: unknown, name: string): unknown {
  if ((typeof of !== 'object' && typeof of !== 'function') || of === null) return undefined
  return name in of ? Object(of)[name] : undefined
}
