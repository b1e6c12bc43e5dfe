import * as api from '../../../shared/api/sso.ts'
import type { Action } from '../../kit/command.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { call } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'
import { throughBrowser } from '../session/browser-trip.ts'

const VIEW: View<api.SsoAccount> = {
  id: (row) => row.id,
  name: (row) => row.providerId,
  columns: [
    column('PROVIDER', (row) => row.providerId),
    column('ACCOUNT', (row) => row.accountId),
    column('E-MAIL', (row) => row.email),
    column('USED', (row) => ({ time: row.lastUsedAt })),
    wide('LINKED', (row) => ({ time: row.createdAt })),
    wide('ID', (row) => row.id),
  ],
}

export const listSso = listAction(api.listSsoAccounts, VIEW)

export const linkSso: Action = async (run) => {
  const providerId = run.args.required('provider')
  const proof = await throughBrowser(run, async (loopback) => {
    const body = { providerId, loopback }
    return (await call(run, api.linkSsoAccount, { params: {}, body })).url
  })
  await run.out.item(await call(run, api.completeSsoLink, { params: {}, body: proof }), VIEW)
}

export const unlinkSso: Action = async (run) => {
  const providerId = run.args.required('provider')
  const accountId = run.args.text('account')
  await run.prompt.confirm(`Unlink your account at ${providerId}?`)
  const body = { providerId, ...(accountId === undefined ? {} : { accountId }) }
  await call(run, api.unlinkSsoAccount, { params: {}, body })
  run.notice(`your account at ${providerId} is unlinked`)
}
