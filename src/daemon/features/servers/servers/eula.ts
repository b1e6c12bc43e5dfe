import { z } from 'zod'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { PendingEula } from '../../../../shared/protocol/server.ts'
import type { NewEvent } from '../../../core/bus.ts'
import { parseJson } from '../../../db/json.ts'
import type { ServerRow } from './rows.ts'

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
export function eulaColumn(
  row: Pick<ServerRow, 'eula'>,
  reported: PendingEula | null | undefined,
  now: () => IsoTime,
): string | null {
  if (reported == null) return null
  const known = eulaOf(row)
  const requestedAt = known !== null && known.asked === reported.asked ? known.requestedAt : now()
  const { state, file, text, asked } = reported
  return JSON.stringify({ state, file, text, asked, requestedAt } satisfies StoredEula)
}

/** The event of an agreement that is asked for, or asked for again. */
export function eulaAsked(before: Pick<ServerRow, 'id' | 'uuid' | 'eula'>, eula: string | null): NewEvent[] {
  const [known, asked] = [eulaOf(before), eulaOf({ eula })]
  if (asked?.state !== 'pending' || (known?.state === 'pending' && known.asked === asked.asked)) return []
  return [{ type: 'eula_required', serverId: before.id, data: eulaFrame(before, asked) }]
}

/** What the frame says of a server, less its type and time. */
export function eulaFrame({ uuid }: Pick<ServerRow, 'uuid'>, { text }: Pick<StoredEula, 'text'>) {
  return { serverUuid: uuid, eulaServerUuid: uuid, eulaText: text }
}
