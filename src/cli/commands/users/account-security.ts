import * as api from '../../../shared/api/account-security.ts'
import type { Action } from '../../kit/command.ts'
import { call, subjectOf } from '../../kit/resource/actions.ts'
import { SUBJECT, VIEW } from './view.ts'

export const disableTwoFactor: Action = async (run) => {
  const { id, name } = await subjectOf(run, SUBJECT)
  await run.prompt.confirm(`Let ${name} sign in by password alone?`)
  await run.out.item(await call(run, api.disableTwoFactorOfUser, { params: { userId: id } }), VIEW)
}

export const signUserOut: Action = async (run) => {
  const { id, name } = await subjectOf(run, SUBJECT)
  await run.prompt.confirm(`End all sessions of ${name}?`)
  const { revoked } = await call(run, api.signUserOut, { params: { userId: id } })
  if (run.out.machine) await run.out.value({ revoked })
  else run.notice(`${revoked} sessions of ${name} ended`)
}
