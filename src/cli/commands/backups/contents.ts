import * as api from '../../../shared/api/backups.ts'
import type { Action } from '../../kit/command.ts'
import { byteSize } from '../../kit/output/byte-size.ts'
import { call } from '../../kit/resource/actions.ts'
import { address } from './address.ts'
import { ENTRIES } from './views.ts'

const PAGE = 10_000

/** `panel backups ls`. */
export const listEntries: Action = async (run) => {
  const { params } = await address(run)
  const path = run.args.word('path') ?? '/'
  const recursive = run.args.flag('recursive')
  const rows: api.BackupEntry[] = []
  const databases: { name: string; size: number }[] = []
  for (let after: string | null | undefined; after !== null; ) {
    const query = { path, recursive: String(recursive), limit: PAGE, ...(after === undefined ? {} : { after }) }
    const page: ReturnType<typeof api.listBackupEntries.response.parse> = await call(run, api.listBackupEntries, {
      params,
      query,
    })
    if (after === undefined) databases.push(...page.databases)
    rows.push(...page.entries)
    after = page.next
  }
  await run.out.list(rows, ENTRIES)
  if (run.out.machine) return
  for (const { name, size } of databases) run.notice(`database ${name}: ${byteSize(size)}, see --database of download`)
}
