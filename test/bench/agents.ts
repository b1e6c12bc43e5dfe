import { Backoff } from '../../src/agent/link/backoff.ts'
import { AgentPeer, type Refused, report } from '../daemon/agent-peer.ts'
import { answerAll } from './processes.ts'
import { pause } from './waiting.ts'

/** What the bench asks of a process of agents. */
export type AgentsQuestion =
  | { readonly ask: 'enter'; readonly url: string; readonly nodes: readonly AgentOf[] }
  /** Answered when all agents have been lost and are in again. */
  | { readonly ask: 'returned' }

/** An agent: its node, key and running servers. */
export interface AgentOf {
  readonly nodeId: string
  readonly key: string
  readonly serverIds: readonly string[]
}

/** When the first, the middle and the last agent was in again, as `Date.now()` says. */
export interface Returned {
  readonly times: readonly number[]
}

/** How often each agent has come in, with the time of the last. */
const entered = new Map<string, { count: number; at: number }>()
let changed: () => void = () => undefined

answerAll(async (given) => {
  const question = given as AgentsQuestion // from the bench, see Helper.ask
  if (question.ask === 'enter') {
    for (const node of question.nodes) void live(question.url, node)
    await allHaveEntered(question.nodes.length, 1)
    return null
  }
  await allHaveEntered(entered.size, 2)
  return { times: [...entered.values()].map(({ at }) => at).sort((a, b) => a - b) } satisfies Returned
})

async function allHaveEntered(agents: number, times: number): Promise<void> {
  for (;;) {
    if (entered.size === agents && [...entered.values()].every(({ count }) => count >= times)) return
    await new Promise<void>((resolve) => {
      changed = resolve
    })
  }
}

/** Connects, says what runs and stays; waits as an agent does after an end, for ever. */
async function live(url: string, { nodeId, key, serverIds }: AgentOf): Promise<never> {
  const backoff = new Backoff(Math.random)
  const servers = serverIds.map((serverId) => report(serverId))
  for (;;) {
    let readyAt: number | undefined
    let refused: Refused | undefined
    try {
      const peer = await AgentPeer.connect(url, nodeId, key)
      const closed = new Promise<void>((resolve) => peer.socket.once('close', () => resolve()))
      await Promise.race([peer.enter({ servers }), closed.then(() => Promise.reject(new Error('closed')))])
      readyAt = performance.now()
      entered.set(nodeId, { count: (entered.get(nodeId)?.count ?? 0) + 1, at: Date.now() })
      changed()
      await closed
    } catch (error) {
      // No daemon, or one that takes no more agents now: the back-off says when it is tried again.
      if (error instanceof Error && 'refused' in error) refused = error.refused as Refused // set by AgentPeer.connect
    }
    const wait = refused?.headers['retry-after']
    const readyMs = readyAt === undefined ? 0 : performance.now() - readyAt
    const retryAfterMs = wait === undefined ? null : Number(wait) * 1000
    await pause(backoff.next({ code: refused?.status ?? null, retryAfterMs, readyMs }))
  }
}
