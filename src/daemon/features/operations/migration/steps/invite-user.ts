import { z } from 'zod'
import { mailInvite } from '../../../accounts/users/invites.ts'
import { findMapped } from '../map.ts'
import { contentHash } from '../plan/content-hash.ts'
import { stepAction } from './step.ts'

/** How long somebody may take to choose a password. */
const INVITED_MS = 7 * 24 * 3_600_000

/** Writes to somebody who was imported and has no password yet. At most once: what may have been sent is not sent again. */
export const inviteUser = stepAction({
  input: z.object({ userSourceId: z.string() }),
  run: async ({ deps, jobId, stepId, sourceFp, signal }, { userSourceId }) => {
    const mapped = await findMapped(deps.db.read, { sourceFp, sourceType: 'user', sourceId: userSourceId })
    if (mapped === undefined) return () => Promise.resolve({ kind: 'skipped', reason: 'user_missing' })
    const target = { type: 'user', id: mapped.targetId, created: false, contentHash: contentHash(mapped.targetId) }
    const isFirst = await deps.db.write(async (tx) => {
      const { intent } = await tx.q
        .selectFrom('migrationStep')
        .select('intent')
        .where('jobId', '=', jobId)
        .where('id', '=', stepId)
        .executeTakeFirstOrThrow()
      const set = { intent: JSON.stringify({ mailTo: mapped.targetId }) }
      await tx.q.updateTable('migrationStep').set(set).where('jobId', '=', jobId).where('id', '=', stepId).execute()
      return intent === null
    })
    if (!isFirst) {
      const warnings = ['the panel ended while it wrote to them: they may have a mail, or need another one']
      return () => Promise.resolve({ kind: 'done', target, notes: { warnings } })
    }
    const mailed = await mailInvite(deps, { userId: mapped.targetId, expiresInMs: INVITED_MS }, signal)
    const warnings = mailed ? [] : ['no mail could be sent; invite them by hand']
    return () => Promise.resolve({ kind: 'done', target, notes: { mailed, warnings } })
  },
})
