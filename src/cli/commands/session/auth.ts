import { getMe } from '../../../shared/api/auth.ts'
import { getServer } from '../../../shared/api/servers.ts'
import { grants, PERMISSIONS } from '../../../shared/kernel/permissions.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { signInHint } from '../../kit/profile/target.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import { mask } from '../../kit/trace.ts'
import { storedCredential } from './login.ts'

interface MeRow {
  readonly id: string
  readonly username: string
  readonly email: string
  readonly role: string
  readonly permissions: readonly string[]
  readonly credential: { readonly kind: string; readonly id: string; readonly expiresAt: string | null }
}

const ME: View<MeRow> = {
  id: (row) => row.id,
  name: (row) => row.username,
  columns: [
    column('USERNAME', (row) => row.username),
    column('EMAIL', (row) => row.email),
    column('ROLE', (row) => row.role),
    column('PERMISSIONS', (row) => (row.permissions.includes('*') ? 'everything' : row.permissions.join(','))),
    column('ID', (row) => row.id),
    wide('CREDENTIAL', (row) => `${row.credential.kind} ${row.credential.id}`),
    wide('EXPIRES', (row) => ({ time: row.credential.expiresAt })),
  ],
}

export const whoami: Action = async (run) => {
  await run.out.item(await (await run.client()).call(getMe), ME)
}

interface StatusRow {
  readonly context: string | null
  readonly url: string
  readonly username: string
  readonly role: string
  readonly credential: string
  readonly credentialId: string
  readonly expiresAt: string | null
  readonly source: string
}

const STATUS: View<StatusRow> = {
  id: (row) => row.credentialId,
  name: (row) => row.username,
  columns: [
    column('CONTEXT', (row) => row.context),
    column('URL', (row) => row.url),
    column('USERNAME', (row) => row.username),
    column('ROLE', (row) => row.role),
    column('CREDENTIAL', (row) => row.credential),
    column('CREDENTIAL ID', (row) => row.credentialId),
    column('EXPIRES', (row) => ({ time: row.expiresAt })),
    column('FROM', (row) => row.source),
  ],
}

/** Asks the panel, so that a dead credential is exit 4 here and not at the next command. */
export const authStatus: Action = async (run) => {
  const target = await run.target()
  const me = await (await run.client()).call(getMe)
  await run.out.item(
    {
      context: target.contextName ?? null,
      url: target.url,
      username: me.username,
      role: me.role,
      credential: `${me.credential.kind} ${mask(target.token ?? '')}`,
      credentialId: me.credential.id,
      expiresAt: me.credential.expiresAt ?? (await storedCredential(run, target.contextName))?.expiresAt ?? null,
      source: target.source === 'environment' ? 'PANEL_TOKEN' : 'credentials.yaml',
    },
    STATUS,
  )
}

export const authToken: Action = async (run) => {
  const target = await run.target()
  const { token, url } = target
  if (token === undefined) {
    throw new CliFailure('NOT_SIGNED_IN', `you are not signed in to ${url}`, { hint: signInHint(target) })
  }
  if (run.out.machine) await run.out.value({ url, token })
  else await run.out.text(`${token}\n`)
}

export const canI: Action = async (run) => {
  const permission = run.args.required('permission')
  const [name, id] = permission.split(':', 2)
  const known = PERMISSIONS.find((one) => one === name)
  // Whoever may do everything would get a yes for a misspelt word.
  if (known === undefined) throw usage(`there is no permission '${permission}'`, 'panel permissions list')
  if (run.args.flag('why')) {
    const { effective, reason } = await import('./explain.ts')
    const [row] = await effective(run, permission)
    if (row === undefined) throw new Error('the panel said nothing about the permission')
    if (run.out.machine) await run.out.value(row)
    else {
      await run.out.text(row.allowed ? 'yes\n' : 'no\n')
      for (const source of row.sources) run.terminal.say(reason(source))
      if (row.cutBy !== null) run.terminal.say(`the key ${row.cutBy.name} withholds it`)
      if (row.sources.length === 0) run.terminal.say('no role, grant, assignment or ownership gives it')
    }
    return row.allowed ? 0 : 5
  }
  const client = await run.client()
  const word = run.args.text('server')
  const serverId = word === undefined ? undefined : (await resolve(run, 'server', word)).id
  const held =
    serverId === undefined
      ? (await client.call(getMe)).permissions
      : (await client.call(getServer, { params: { serverId } })).effectivePermissions
  const allowed = grants(new Set(held), known, id)
  if (run.out.machine) await run.out.value({ permission, allowed, ...(serverId === undefined ? {} : { serverId }) })
  else await run.out.text(allowed ? 'yes\n' : 'no\n')
  return allowed ? 0 : 5
}
