import { PanelError } from '../../shared/kernel/errors.ts'
import type { Settings } from '../core/settings.ts'

interface Node {
  running: number
  /** Each takes a slot that is counted as running already. */
  readonly waiting: (() => void)[]
}

/** The file transfers of each node: so many at a time, so many waiting, in the order in which they came. */
export class TransferSlots {
  readonly #settings: Pick<Settings, 'get'>
  readonly #nodes = new Map<string, Node>()

  constructor(settings: Pick<Settings, 'get'>) {
    this.#settings = settings
  }

  /** Resolves when it is the transfer's turn, with what ends it. Fails with RATE_LIMITED when too many wait, and with the signal's reason. */
  async take(nodeId: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const node = this.#nodes.get(nodeId) ?? { running: 0, waiting: [] }
    this.#nodes.set(nodeId, node)
    if (node.running < this.#settings.get('files.transfersPerNode')) node.running += 1
    else await this.#wait(node, signal)
    return () => {
      node.running -= 1
      this.#grant(node)
      if (node.running === 0) this.#nodes.delete(nodeId)
    }
  }

  /**
   * A slot of each of these nodes, of a node that is named twice one. They are taken in the same order by everybody: two that wait for
   * each other would wait for ever.
   */
  async takeAll(nodeIds: readonly string[], signal: AbortSignal): Promise<() => void> {
    const taken: (() => void)[] = []
    const release = (): void => {
      for (const one of taken.splice(0)) one()
    }
    try {
      for (const nodeId of [...new Set(nodeIds)].sort()) taken.push(await this.take(nodeId, signal))
    } catch (error) {
      release()
      throw error
    }
    return release
  }

  async #wait(node: Node, signal: AbortSignal): Promise<void> {
    const limit = this.#settings.get('files.waitingTransfersPerNode')
    if (node.waiting.length >= limit) {
      throw new PanelError('RATE_LIMITED', `${limit} file transfers wait for this node already; try again later`, {
        meta: { retryAfterSeconds: 5, limit },
      })
    }
    await new Promise<void>((resolve, reject) => {
      const granted = (): void => {
        signal.removeEventListener('abort', left)
        resolve()
      }
      const left = (): void => {
        node.waiting.splice(node.waiting.indexOf(granted), 1)
        reject(signal.reason)
      }
      signal.addEventListener('abort', left, { once: true })
      node.waiting.push(granted)
    })
  }

  /** Hands free slots on; a limit that was raised meanwhile counts at once. */
  #grant(node: Node): void {
    while (node.running < this.#settings.get('files.transfersPerNode')) {
      const granted = node.waiting.shift()
      if (granted === undefined) return
      node.running += 1
      granted()
    }
  }
}
