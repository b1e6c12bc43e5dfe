import { getOidcConfig, type OidcConfig, updateOidcConfig } from '../../../shared/api/oidc-settings.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, view } from '../../kit/output/view.ts'
import { call } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import type { Run } from '../../kit/run.ts'
import { secretOf } from '../providers/actions.ts'

const UNSET: Readonly<Record<string, string>> = {
  'client-id': 'clientId',
  'client-secret': 'clientSecret',
  'discovery-url': 'discoveryUrl',
}

type Row = OidcConfig['whmcs'] & { readonly id: string; readonly name: string }

const VIEW = view<Row>([
  column('PROVIDER', (row) => row.name),
  column('DISCOVERY URL', (row) => row.discoveryUrl),
  column('CLIENT ID', (row) => row.clientId),
  column('CLIENT SECRET', (row) => row.clientSecret),
  column('SOURCE', (row) => row.source),
])

export const getOidc: Action = async (run) => show(run, await call(run, getOidcConfig, { params: {} }))

export const setOidc: Action = async (run) => {
  const change = await fieldsOf(run)
  for (const name of run.args.list('unset')) {
    const field = UNSET[name.replace(/^--/, '')]
    if (field === undefined) throw usage(`--unset ${name}: choose from ${Object.keys(UNSET).join(', ')}`)
    change[field] = ''
  }
  const secret = await secretOf(run)
  if (secret !== undefined) change['clientSecret'] = secret
  if (Object.keys(change).length === 0) throw usage('nothing to change is given', 'panel settings oidc set --help')
  const body = { [run.args.required('provider')]: change }
  await show(run, await call(run, updateOidcConfig, { params: {}, body }))
}

/** As it was answered for programs; for people a row for each. */
async function show(run: Run, config: OidcConfig): Promise<void> {
  if (run.out.machine) return run.out.value(config)
  const rows = (['whmcs', 'paymenter'] as const).map((id) => ({ id, name: id, ...config[id] }))
  await run.out.list(rows, VIEW)
}
