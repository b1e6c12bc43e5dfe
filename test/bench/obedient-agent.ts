import type { ServerReport } from '../../src/shared/protocol/server.ts'
import { AgentPeer } from '../daemon/agent-peer.ts'
import { answerAll } from './processes.ts'

/** What the bench asks of an agent's process. */
export type ObedientQuestion = { readonly ask: 'enter'; readonly as: ObedientNode } | { readonly ask: 'leave' }

/** The node that an agent comes in as. */
export interface ObedientNode {
  readonly url: string
  readonly nodeId: string
  readonly key: string
  readonly servers: readonly ServerReport[]
}

let peer: AgentPeer | undefined

answerAll(async (given) => {
  const question = given as ObedientQuestion // from the bench, see Helper.ask
  if (question.ask === 'enter') peer = await obey(question.as)
  else await peer?.leave()
  return null
})

/** Comes in as the agent of a node, and carries out every order at once. */
async function obey({ url, nodeId, key, servers }: ObedientNode): Promise<AgentPeer> {
  const agent = await AgentPeer.connect(url, nodeId, key)
  await agent.enter({ servers: [...servers] })
  agent.socket.on('message', () => {
    for (const frame of agent.frames.splice(0)) if (frame.type === 'command') agent.finish(frame)
    agent.typed.length = 0
  })
  return agent
}
