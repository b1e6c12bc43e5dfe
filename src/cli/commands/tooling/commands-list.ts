import { type Action, walk } from '../../kit/command.ts'
import { usageLine } from '../../kit/help.ts'
import { column, type View } from '../../kit/output/view.ts'

interface Row {
  readonly path: string
  readonly usage: string
  readonly summary: string
  readonly options: readonly { readonly flags: string; readonly summary: string }[]
  readonly examples: readonly string[]
  readonly endpoints: readonly string[]
}

const VIEW: View<Row> = {
  id: (row) => row.path,
  name: (row) => row.path,
  columns: [column('COMMAND', (row) => row.usage), column('SUMMARY', (row) => row.summary)],
}

/** `panel commands`. */
export const listCommands: Action = async (run) => {
  const rows = [...walk(await run.tree())]
    .filter(({ command }) => command.hidden !== true)
    .map(({ path, command }) => ({
      path: path.join(' '),
      usage: usageLine(command, path),
      summary: command.summary,
      options: (command.options ?? []).map(({ flags, summary }) => ({ flags, summary })),
      examples: command.examples,
      endpoints: command.endpoints ?? [],
    }))
  await run.out.list(rows, VIEW)
}
