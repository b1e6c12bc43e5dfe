import * as api from '../../../shared/api/auth.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { readNewPassword } from '../../kit/new-account.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { readSecret } from '../../kit/prompt.ts'
import { call } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'

const SESSION: View<api.Session> = {
  id: (row) => row.id,
  name: (row) => row.id,
  columns: [
    column('CURRENT', (row) => (row.current ? '*' : ' ')),
    column('FROM', (row) => row.ipAddress),
    column('CLIENT', (row) => row.userAgent),
    column('USED', (row) => ({ time: row.updatedAt })),
    column('EXPIRES', (row) => ({ time: row.expiresAt })),
    column('ID', (row) => row.id),
    wide('CREATED', (row) => ({ time: row.createdAt })),
  ],
}

export const listSessions = listAction(api.listSessions, SESSION)

export const revokeSession: Action = async (run) => {
  const sessionId = run.args.word('session')
  const others = run.args.flag('others')
  if ((sessionId === undefined) !== others) throw usage('name one session, or pass --others')
  if (sessionId !== undefined) {
    await call(run, api.revokeSession, { params: { sessionId } })
    return run.notice(`session ${sessionId} ended`)
  }
  const { revoked } = await call(run, api.revokeOtherSessions, { params: {} })
  if (run.out.machine) await run.out.value({ revoked })
  else run.notice(`${revoked} sessions ended`)
}

export const changePassword: Action = async (run) => {
  if (run.args.flag('set')) {
    const newPassword = await readNewPassword(run, 'New password:')
    await call(run, api.setPassword, { params: {}, body: { newPassword } })
  } else {
    const currentPassword = await readSecret({ name: 'current-password', question: 'Present password:' }, run)
    const newPassword = await readNewPassword(run, 'New password:')
    const revokeOtherSessions = run.args.flag('sign-out-others')
    await call(run, api.changePassword, { params: {}, body: { currentPassword, newPassword, revokeOtherSessions } })
  }
  run.notice('the password is changed')
}
