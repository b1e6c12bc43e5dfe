import * as api from '../../../shared/api/system-errors.ts'
import type { SystemError } from '../../../shared/kernel/system-error.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { instantOf } from '../../kit/instant.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { call } from '../../kit/resource/actions.ts'
import { forEach } from '../../kit/resource/bulk.ts'
import { downloadAction } from '../../kit/resource/download.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import type { Run } from '../../kit/run.ts'

const VIEW: View<SystemError> = {
  id: (row) => row.id,
  name: (row) => row.message,
  columns: [
    column('LAST SEEN', (row) => ({ time: row.lastSeenAt })),
    column('LEVEL', (row) => row.level),
    column('COMPONENT', (row) => row.component),
    column('TIMES', (row) => row.count),
    column('STATUS', (row) => row.status),
    column('MESSAGE', (row) => row.message),
    column('ID', (row) => row.id),
    wide('FIRST SEEN', (row) => ({ time: row.firstSeenAt })),
    wide('REQUEST', (row) => row.requestId),
    wide('NOTE', (row) => row.note),
  ],
}

const DETAIL: View<SystemError> = { ...VIEW, columns: [...VIEW.columns, column('STACK', (row) => row.stack)] }

export const listErrors = listAction(api.listSystemErrors, VIEW, async (run) => ({ query: await filterOf(run) }))
export const exportErrors = downloadAction(api.exportSystemErrors, filterOf)

export const viewError: Action = async (run) => {
  const params = { errorId: run.args.required('error') }
  await run.out.item(await call(run, api.getSystemError, { params }), DETAIL)
}

export const resolveErrors: Action = async (run) => {
  const body = await fieldsOf(run)
  const ids = run.args.words('error')
  return forEach(
    run,
    [...new Set(ids)].map((id) => ({ id, name: id })),
    async ({ id }) => {
      const client = await run.client()
      const options = { idempotencyKey: run.idempotencyKey(id) }
      const row = await client.call(api.resolveSystemError, { params: { errorId: id }, body }, options)
      if (run.out.machine) await run.out.row(row, VIEW)
      else run.notice(`resolved ${row.id}: ${row.message}`)
    },
  )
}

export const resolveAll: Action = async (run) => {
  const body = { ...(await fieldsOf(run)), ...(await between(run)) }
  const chosen = Object.keys(body).some((name) => name !== 'note')
  await run.prompt.confirm(chosen ? 'Resolve all of this selection?' : 'Resolve every open system error?')
  const answer = await call(run, api.resolveSystemErrors, { params: {}, body })
  if (run.out.machine) await run.out.value(answer)
  else run.notice(`resolved ${answer.resolved}`)
}

async function filterOf(run: Run): Promise<Record<string, unknown>> {
  const [open, resolved] = [run.args.flag('unresolved'), run.args.flag('resolved')]
  if (open && resolved) throw usage('--resolved and --unresolved exclude each other')
  return { ...(open || resolved ? { resolved } : {}), ...(await between(run)) }
}

async function between(run: Run): Promise<Record<string, unknown>> {
  const [from, to] = [instantOf(run, 'since'), instantOf(run, 'until')]
  return { ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }
}
