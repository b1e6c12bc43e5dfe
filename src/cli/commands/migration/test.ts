import type * as api from '../../../shared/api/migration.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure } from '../../kit/failure.ts'
import { oneLine } from '../../kit/output/escape.ts'
import { column, type View } from '../../kit/output/view.ts'
import { readSource, SourceLook, wantedKind } from './source.ts'
import { SOURCE_NODES, SOURCE_SERVERS } from './views.ts'

const FOUND: View<api.SourceTest> = {
  id: (row) => row.kind ?? '',
  name: (row) => row.kind ?? '',
  columns: [
    column('SOURCE', (row) => row.kind),
    column('USABLE', (row) => row.success),
    column('VERSION', (row) => row.version),
    column('NODES', (row) => row.stats?.nodes),
    column('SERVERS', (row) => row.stats?.servers),
    column('USERS', (row) => row.stats?.users),
    column('LOCATIONS', (row) => row.stats?.locations),
    column('NESTS', (row) => row.stats?.nests),
  ],
}

/** `panel migration test`. */
export const testSource: Action = async (run) => {
  const found = await new SourceLook(run, await readSource(run)).get()
  await run.out.item(found, FOUND)
  if (!run.out.machine && run.out.format !== 'csv' && found.stats !== null) {
    run.notice('')
    await run.out.list(found.nodes, SOURCE_NODES)
    run.notice('')
    await run.out.list(found.servers, SOURCE_SERVERS)
  }
  refuseUnusable(found, wantedKind(run))
  return 0
}

/** Throws where a source cannot be moved from, with what the keys lack; a source of another kind than is wanted is refused as well. */
export function refuseUnusable(found: api.SourceTest, wanted: api.SourceKind | undefined): void {
  const { success, error, errorCode, missingRights, kind } = found
  if (success) {
    if (wanted === undefined || kind === null || wanted === kind) return
    throw new CliFailure('REJECTED', `the source is ${kind}, and not ${wanted}`, { hint: `--source ${kind}` })
  }
  const details = missingRights.map((message) => ({ field: 'the keys', message: oneLine(message) }))
  const isOurs = errorCode === 'REFUSED' || errorCode === 'NOT_A_PANEL'
  throw new CliFailure(
    isOurs ? 'REJECTED' : 'OPERATION_FAILED',
    `the source cannot be used: ${error ?? 'no reason is given'}`,
    {
      ...(details.length === 0 ? {} : { details }),
      hint: HINTS[errorCode ?? 'FAILED'],
    },
  )
}

const HINTS: Readonly<Record<NonNullable<api.SourceTest['errorCode']>, string>> = {
  UNREACHABLE: 'look whether this panel reaches the address; --insecure where its certificate is not trusted',
  REFUSED: 'an account key of an administrator of the source opens all that is needed',
  NOT_A_PANEL: '--url is the address that people open in a browser, without /api',
  FAILED: 'again in a while',
}
