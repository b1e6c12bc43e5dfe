import * as api from '../../../shared/api/lockouts.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { call, deleted, ignoringNotFound } from '../../kit/resource/actions.ts'
import { forEach } from '../../kit/resource/bulk.ts'
import { listAction } from '../../kit/resource/list.ts'
import type { Run } from '../../kit/run.ts'

const VIEW: View<api.AuthLockout> = {
  id: (row) => row.id,
  name: (row) => nameOf(row),
  columns: [
    column('ACCOUNT', (row) => (row.email === '' ? 'any' : row.email)),
    column('FROM', (row) => (row.ipAddress === '' ? 'anywhere (second factor)' : row.ipAddress)),
    column('FAILURES', (row) => row.failureCount),
    column('LAST', (row) => ({ time: row.lastFailedAt })),
    column('LOCKED UNTIL', (row) => ({ time: row.lockedUntil })),
    column('ID', (row) => row.id),
    wide('FIRST', (row) => ({ time: row.firstFailedAt })),
    wide('CLIENT', (row) => row.userAgent),
  ],
}

export const listLockouts = listAction(api.listLockouts, VIEW, async ({ args }) => {
  return { query: args.flag('locked') ? { locked: true } : {} }
})

export const deleteLockouts: Action = async (run) => {
  const ids = run.args.words('lockout')
  const chosen = ['user', 'ip'].some((name) => run.args.text(name) !== undefined) || run.args.flag('all')
  if (ids.length > 0 === chosen) throw usage('name lockouts, or pass --user, --ip or --all')
  const things = ids.length > 0 ? [...new Set(ids)].map((id) => ({ id, name: id })) : await matching(run)
  if (things.length === 0) return run.notice('there are none') ?? 0
  await run.prompt.confirm(`Delete ${things.length === 1 ? things[0]?.name : `${things.length} lockouts`}?`)
  let code = 0
  await ignoringNotFound(run, async () => {
    code = await forEach(run, things, async (thing) => {
      await call(run, api.deleteLockout, { params: { lockoutId: thing.id } })
      await deleted(run, thing)
    })
  })
  return code
}

/** The rows of this account and this address, all pages of them. */
async function matching(run: Run): Promise<{ id: string; name: string }[]> {
  const [user, ip] = [run.args.text('user')?.toLowerCase(), run.args.text('ip')]
  const client = await run.client()
  const found: { id: string; name: string }[] = []
  for (let page = 1; ; page++) {
    const search = user ?? ip
    const query = { page, limit: 100, ...(search === undefined ? {} : { search }) }
    const { data, pagination } = await client.page(api.listLockouts, { query })
    const rows = data.filter((row) => (user ?? row.email) === row.email && (ip ?? row.ipAddress) === row.ipAddress)
    found.push(...rows.map((row) => ({ id: row.id, name: nameOf(row) })))
    if (page >= pagination.totalPages) return found
  }
}

function nameOf({ email, ipAddress }: api.AuthLockout): string {
  return `${email === '' ? 'any account' : email} from ${ipAddress === '' ? 'anywhere' : ipAddress}`
}
