import { expect, it } from 'vitest'
import { agentCodeOf, agentErrorToPanelError } from '../../../src/daemon/gateway/agent-errors.ts'

it.each([
  ['PORT_IN_USE', 'PORT_IN_USE'],
  ['SUSPENDED', 'SERVER_SUSPENDED'],
  ['CONFLICT_STATE', 'CONFLICT'],
  ['NO_SPACE', 'INSUFFICIENT_SPACE'],
  ['TIMEOUT', 'AGENT_TIMEOUT'],
  ['INTERNAL', 'AGENT_ERROR'],
] as const)('tells the failure %s of a node as %s, with the word of the node', (agentCode, code) => {
  const error = agentErrorToPanelError({ code: agentCode, message: 'The node says why' })
  expect(error).toMatchObject({ code, message: 'The node says why', meta: { agentCode } })
  expect(agentCodeOf(error)).toBe(agentCode)
  expect(agentCodeOf(new Error('another'))).toBeUndefined()
})
