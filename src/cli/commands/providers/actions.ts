import * as api from '../../../shared/api/providers.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import type { Action } from '../../kit/command.ts'
import { CLI_FAILURES, usage } from '../../kit/failure.ts'
import { column, type View, view, wide } from '../../kit/output/view.ts'
import { readSecret } from '../../kit/prompt.ts'
import { call, deleted, ignoringNotFound } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'

const LISTED = view<api.ListedProvider>([
  column('ID', (row) => row.id),
  column('NAME', (row) => row.name),
  column('ENABLED', (row) => row.enabled),
  wide('TYPE', (row) => row.type),
])

const VIEW = view<api.Provider>([
  column('ID', (row) => row.id),
  column('NAME', (row) => row.name),
  column('ENABLED', (row) => row.enabled),
  column('DISCOVERY URL', (row) => row.discoveryUrl),
  column('CLIENT ID', (row) => row.clientId),
  column('CLIENT SECRET', (row) => row.clientSecret),
  column('CALLBACK URL', (row) => row.callbackUrl),
  column('SCOPES', (row) => row.scopes.join(' ')),
  column('DOMAINS', (row) => row.allowedDomains.join(' ')),
  column('CREATES ACCOUNTS', (row) => row.createAccounts),
  column('LINKS BY E-MAIL', (row) => row.linkByEmail),
  column('GROUP CLAIM', (row) => row.groupClaim),
  column('ROLES', (row) => row.roleMapping.map(({ group, roleId }) => `${group}=${roleId}`).join(' ')),
  column('SOURCE', (row) => row.source),
  column('CHANGED', (row) => ({ time: row.updatedAt })),
])

const TEST: View<api.ProviderTest> = {
  id: (row) => String(row.ok),
  name: (row) => String(row.ok),
  columns: [
    column('OK', (row) => row.ok),
    column('ISSUER', (row) => row.issuer),
    column('STEP', (row) => row.step),
    column('ERROR', (row) => row.error),
  ],
}

const UNSET: Readonly<Record<string, readonly [field: string, empty: unknown]>> = {
  'client-secret': ['clientSecret', null],
  scope: ['scopes', []],
  domain: ['allowedDomains', []],
  'group-claim': ['groupClaim', null],
  role: ['roleMapping', []],
}

export const listProviders = listAction(api.listProviders, LISTED)

export const viewProvider: Action = async (run) => {
  await run.out.item(await call(run, api.getProvider, { params: paramsOf(run) }), VIEW)
}

export const createProvider: Action = async (run) => {
  const params = paramsOf(run)
  if (await exists(run)) throw new PanelError('CONFLICT', `There is an identity provider ${params.providerId} already`)
  await run.out.item(await call(run, api.putProvider, { params, body: await bodyOf(run) }), VIEW)
}

export const editProvider: Action = async (run) => {
  const params = paramsOf(run)
  const body = await bodyOf(run)
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', 'panel providers edit --help')
  // A PUT would make one that is not there.
  await call(run, api.getProvider, { params })
  await run.out.item(await call(run, api.putProvider, { params, body }), VIEW)
}

export const deleteProvider: Action = async (run) => {
  const params = paramsOf(run)
  const { providerId } = params
  await ignoringNotFound(run, async () => {
    await run.prompt.confirm(`Delete the identity provider ${providerId}, and all links of accounts to it?`)
    await call(run, api.deleteProvider, { params })
    await deleted(run, { id: providerId, name: providerId })
  })
}

export const testProvider: Action = async (run) => {
  const result = await call(run, api.testProvider, { params: paramsOf(run) })
  await run.out.item(result, TEST)
  return result.ok ? 0 : CLI_FAILURES.OPERATION_FAILED
}

/** The test of a provider whose id is a word of the command already. */
export function testOf(argument: string): Action {
  return async (run) => {
    const result = await call(run, api.testProvider, { params: { providerId: run.args.required(argument) } })
    await run.out.item(result, TEST)
    return result.ok ? 0 : CLI_FAILURES.OPERATION_FAILED
  }
}

function paramsOf(run: Run): { providerId: string } {
  return { providerId: run.args.required('provider') }
}

async function exists(run: Run): Promise<boolean> {
  try {
    const { createdAt } = await call(run, api.getProvider, { params: paramsOf(run) })
    return createdAt !== null
  } catch (error) {
    if (error instanceof PanelError && error.code === 'PROVIDER_NOT_FOUND') return false
    throw error
  }
}

async function bodyOf(run: Run): Promise<Record<string, unknown>> {
  const { args } = run
  const body = await fieldsOf(run)
  for (const name of args.list('unset')) {
    const known = UNSET[name.replace(/^--/, '')]
    if (known === undefined) throw usage(`--unset ${name}: choose from ${Object.keys(UNSET).join(', ')}`)
    body[known[0]] = known[1]
  }
  const secret = await secretOf(run)
  if (secret !== undefined) body['clientSecret'] = secret
  const roles = args.list('role')
  if (roles.length > 0) body['roleMapping'] = await mappingOf(run, roles)
  return body
}

/** The client secret by stdin, file or a hidden question, if it is given. */
export async function secretOf(run: Run): Promise<string | undefined> {
  const { args } = run
  const ways = [
    args.flag('client-secret-stdin'),
    args.text('client-secret-file') !== undefined,
    args.flag('ask-client-secret'),
  ]
  if (!ways.includes(true)) return undefined
  return readSecret({ name: 'client-secret', question: 'Client secret:' }, run)
}

async function mappingOf(run: Run, pairs: readonly string[]): Promise<{ group: string; roleId: string }[]> {
  const found: { group: string; roleId: string }[] = []
  for (const pair of pairs) {
    // Names of groups may have = in them, as in cn=admins,ou=people; those of roles seldom do.
    const at = pair.lastIndexOf('=')
    if (at < 1) throw usage(`--role must be <group>=<role>, not '${pair}'`)
    found.push({ group: pair.slice(0, at), roleId: (await resolve(run, 'role', pair.slice(at + 1))).id })
  }
  return found
}
