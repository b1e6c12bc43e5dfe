import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import type { DatabaseFile, RestoredDatabase } from '../../roles.ts'

const FILE: View<DatabaseFile> = {
  id: (row) => row.file,
  name: (row) => row.file,
  columns: [
    column('FILE', (row) => row.file),
    column('STATUS', (row) => ({ status: row.status })),
    column('MODIFIED', (row) => ({ time: row.modifiedAt })),
    column('VERSION', (row) => row.schemaVersion),
    wide('BYTES', (row) => row.bytes),
    column('PROBLEM', (row) => row.problems[0]),
  ],
}

/** `panel db check`: exit 11 when the database of this machine is not as it should be. */
export const checkDatabase: Action = async (run) => {
  const found = await run.roles.checkDatabase({ dataDir: run.args.text('data-dir') })
  const { copies, running, ...database } = found
  if (run.out.machine) await run.out.value(found)
  else await run.out.list([database, ...copies], FILE)
  if (database.status === 'ok') return 0
  const good = copies.find(({ status }) => status === 'ok')
  const stop = running ? 'panel down, and then ' : ''
  if (good === undefined) run.notice('no good copy is beside it: panel db restore <file> takes one from anywhere')
  else run.notice(`next: ${stop}panel db restore ${good.file}`)
  return 11
}

const RESTORED: View<RestoredDatabase> = {
  id: (row) => row.file,
  name: (row) => row.file,
  columns: [
    column('DATABASE', (row) => row.file),
    column('FROM', (row) => row.from),
    column('VERSION', (row) => row.schemaVersion),
    column('REPLACED', (row) => row.replaced),
  ],
}

/** `panel db restore`. */
export const restoreDatabase: Action = async (run) => {
  const copy = run.args.word('copy')
  if (copy === undefined) throw usage('<copy> is required', 'panel db check')
  await run.prompt.confirm(`Replace the database of this machine's panel by ${copy}?`)
  const restored = await run.roles.restoreDatabase({ dataDir: run.args.text('data-dir'), copy })
  await run.out.item(restored, RESTORED)
  if (!run.out.machine) run.notice('what was there before is kept under REPLACED; start the panel again')
}
