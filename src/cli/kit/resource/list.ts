import type { Endpoint, Row } from '../../../shared/kernel/contract.ts'
import type { Action } from '../command.ts'
import type { View } from '../output/view.ts'
import type { Run } from '../run.ts'
import { fieldsOf } from './fields.ts'
import { hasNextPage } from './next-page.ts'

/** What a list adds to its flags: path parameters, fixed query values, and how rows are changed before they are shown. */
interface More<R> {
  readonly params?: Record<string, string>
  readonly query?: Record<string, unknown>
  readonly shown?: (row: R) => R
}

/** The action of a list: one page, or with `--all` every page. */
export function listAction<E extends Endpoint>(
  endpoint: E,
  view: View<Row<E>>,
  more: (run: Run) => Promise<More<Row<E>>> = async () => ({}),
): Action {
  return async (run) => {
    const { params, query, shown } = await more(run)
    const wanted = { ...(await fieldsOf(run)), ...query }
    const found = await readPages(run, { endpoint, params: params ?? {}, query: wanted })
    const rows = found as readonly Row<E>[] // parsed by that endpoint's own schema
    await run.out.list(shown === undefined ? rows : rows.map(shown), view)
  }
}

interface Pages {
  readonly endpoint: Endpoint
  readonly params: Record<string, string>
  readonly query: Record<string, unknown>
}

async function readPages(run: Run, { endpoint, params, query }: Pages): Promise<unknown[]> {
  const client = await run.client()
  const all = run.args.flag('all')
  const limit = run.args.integer('limit', 1) ?? (all ? 100 : undefined)
  const rows: unknown[] = []
  for (let page = run.args.integer('page', 1) ?? 1; ; page++) {
    const paging = { page, ...(limit === undefined ? {} : { limit }) }
    const answer = await client.page<Endpoint>(endpoint, { params, query: { ...query, ...paging } })
    if (Array.isArray(answer.data)) rows.push(...answer.data)
    const { total, totalIsCapped } = answer.pagination
    const more = hasNextPage(answer.pagination, Array.isArray(answer.data) ? answer.data.length : 0)
    if (all && more) continue
    if (!all && more && !run.out.machine) {
      const known = totalIsCapped === true ? `${total.toLocaleString('en-US')}+` : total
      run.notice(`${rows.length} of ${known} shown; --all for the rest, --page ${page + 1} for the next`)
    }
    return rows
  }
}
