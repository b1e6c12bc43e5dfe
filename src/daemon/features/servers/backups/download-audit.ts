import type { Endpoint, StreamAnswer } from '../../../../shared/kernel/contract.ts'
import { type Principal, recordChange } from '../../../access/operation.ts'
import type { BackupDeps } from './deps.ts'

/** The same answer, which is in the audit log as soon as it is read: a download takes data out of the panel. */
export function audited(
  deps: Pick<BackupDeps, 'db' | 'bus' | 'audit'>,
  {
    endpoint,
    principal,
    params: { serverId, backupId },
    query,
  }: {
    readonly endpoint: Endpoint
    readonly principal: Principal
    readonly params: { readonly serverId: string; readonly backupId: string }
    readonly query: Readonly<Record<string, unknown>>
  },
  answer: StreamAnswer,
): StreamAnswer {
  const audit = { action: 'backup.download', resource: 'backup', resourceId: backupId, details: { serverId, ...query } }
  return {
    ...answer,
    read: async (range) => {
      const content = await answer.read(range)
      await deps.db.write((tx) => recordChange(tx, { deps, principal, endpoint }, { audit }))
      return content
    },
  }
}
