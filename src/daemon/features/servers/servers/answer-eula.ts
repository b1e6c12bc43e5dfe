import type { answerServerEula } from '../../../../shared/api/server-life.ts'
import type { Answer, Endpoint } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { answerEula as answerEulaRequest } from '../../../../shared/protocol/server.ts'
import { type OperationDeps, type Principal, recordChange } from '../../../access/operation.ts'
import { agentCodeOf } from '../../../gateway/agent-errors.ts'
import type { Gateway } from '../../../gateway/gateway.ts'
import { eulaOf } from './eula.ts'
import { offline, refuseSuspended } from './orders.ts'
import { findServerRow, type ServerRow } from './rows.ts'

/** What answering an agreement needs. */
export interface EulaDeps extends OperationDeps {
  readonly ask: Gateway['request']
  readonly isOnline: (nodeId: string) => boolean
}

/**
 * Accepts or declines the agreement of a server, on its node; the state after it comes by the node's report. The audit row comes first, so
 * that nothing is agreed to without one, whatever ends meanwhile; what the node refused, or of which nobody can say, gets a second row.
 */
export async function answerEula(
  deps: EulaDeps,
  { principal, endpoint }: { readonly principal: Principal; readonly endpoint: Pick<Endpoint, 'id' | 'audit'> },
  { serverId, accepted }: { readonly serverId: string; readonly accepted: boolean },
): Promise<Answer<typeof answerServerEula>> {
  const row = await findServerRow(deps.db.read, serverId)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  refuseSuspended(row)
  const pending = eulaOf(row)
  if (pending === null || (!accepted && pending.state === 'declined')) throw notPending(row)
  if (!deps.isOnline(row.nodeId)) throw offline(row)
  const answer = { accepted, file: pending.file, text: pending.text }
  const record = (details: Readonly<Record<string, unknown>>): Promise<void> =>
    deps.db.write((tx) => recordChange(tx, { deps, principal, endpoint }, { audit: { resourceId: row.id, details } }))
  await record(answer)
  try {
    await deps.ask(row.nodeId, answerEulaRequest, { serverId, accepted })
  } catch (error) {
    const agentCode = agentCodeOf(error)
    await record({ ...answer, outcome: agentCode === undefined ? 'unknown' : 'refused' })
    throw agentCode === 'CONFLICT_STATE' ? notPending(row) : error
  }
  return null
}

function notPending({ name }: ServerRow): PanelError {
  return new PanelError('EULA_NOT_PENDING', `${name} waits for no agreement now`)
}
