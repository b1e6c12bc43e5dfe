import { z } from 'zod'
import type { answerServerEula } from '../../../../shared/api/server-life.ts'
import type { Answer, Endpoint } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import { answerEula as answerEulaRequest, type PendingEula } from '../../../../shared/protocol/server.ts'
import { type OperationDeps, type Principal, recordChange } from '../../../access/operation.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { agentCodeOf } from '../../../gateway/agent-errors.ts'
import type { Gateway } from '../../../gateway/gateway.ts'
import { offline, refuseSuspended } from './orders.ts'
import { findServerRow, type ServerRow } from './rows.ts'

/** The column, as it was made from a report. */
const StoredEula = z.object({
  state: z.enum(['pending', 'declined']),
  file: z.string(),
  text: z.string(),
  asked: z.int(),
  requestedAt: z.string(),
})
type StoredEula = Omit<z.infer<typeof StoredEula>, 'requestedAt'> & { readonly requestedAt: IsoTime }

/** The agreement that a server waits for; `null`: none. */
export function eulaOf({ eula }: Pick<ServerRow, 'eula'>): StoredEula | null {
  return eula === null ? null : (parseJson(StoredEula, eula) as StoredEula) // its time was written from one
}

/** The same as answers show it. */
export function shownEula(row: Pick<ServerRow, 'eula'>): Omit<StoredEula, 'asked'> | null {
  const stored = eulaOf(row)
  if (stored === null) return null
  const { state, file, text, requestedAt } = stored
  return { state, file, text, requestedAt }
}

/** The column after a report; agents that know no agreements leave none. */
export function eulaColumn(row: ServerRow, reported: PendingEula | null | undefined, now: IsoTime): string | null {
  if (reported == null) return null
  const known = eulaOf(row)
  const requestedAt = known !== null && known.asked === reported.asked ? known.requestedAt : now
  const { state, file, text, asked } = reported
  return JSON.stringify({ state, file, text, asked, requestedAt } satisfies StoredEula)
}

/** Reports an agreement that is asked for, or asked for again. */
export async function announceEula(tx: Tx, bus: Bus, before: ServerRow, eula: string | null): Promise<void> {
  const [known, asked] = [eulaOf(before), eulaOf({ eula })]
  if (asked?.state !== 'pending' || (known?.state === 'pending' && known.asked === asked.asked)) return
  await bus.append(tx, { type: 'eula_required', serverId: before.id, data: eulaFrame(before, asked) })
}

/** What the frame says of a server, less its type and time. */
export function eulaFrame({ uuid }: Pick<ServerRow, 'uuid'>, { text }: Pick<StoredEula, 'text'>) {
  return { serverUuid: uuid, eulaServerUuid: uuid, eulaText: text }
}

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
