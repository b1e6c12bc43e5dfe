import { createNodeKey } from '../../src/shared/api/nodes.ts'
import type { ServerReport } from '../../src/shared/protocol/server.ts'
import type { BenchPanel } from './bench-panel.ts'
import type { ObedientQuestion } from './obedient-agent.ts'
import { Helper } from './processes.ts'

/** A node's agent that carries out every order at once: a process of its own, as agents are, which holds up nobody's load. */
export class ObedientAgent {
  readonly #process = new Helper('obedient-agent')

  private constructor() {}

  /** Resolves when the daemon has taken it in. */
  static async enter(
    panel: BenchPanel,
    { nodeId = panel.nodeId, servers = [] }: { readonly nodeId?: string; readonly servers?: ServerReport[] } = {},
  ): Promise<ObedientAgent> {
    const { apiKey: key } = await panel.client.call(createNodeKey, { params: { nodeId }, body: {} })
    const agent = new ObedientAgent()
    const as = { url: panel.url, nodeId, key, servers }
    await agent.#process.ask<null>({ ask: 'enter', as } satisfies ObedientQuestion)
    return agent
  }

  async leave(): Promise<void> {
    await this.#process.ask<null>({ ask: 'leave' } satisfies ObedientQuestion)
    await this.#process.end()
  }
}
