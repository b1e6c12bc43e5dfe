import * as api from '../../../shared/api/orphans.ts'
import type { Action } from '../../kit/command.ts'
import { column, type View } from '../../kit/output/view.ts'
import { call, subjectOf } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import type { Run } from '../../kit/run.ts'

const SUBJECT = { ref: 'node', param: 'nodeId' } as const

const ORPHAN: View<api.Orphan> = {
  id: (row) => row.serverId,
  name: (row) => row.name ?? row.serverId,
  columns: [
    column('ID', (row) => row.serverId),
    column('NAME', (row) => row.name),
    column('STATUS', (row) => (row.name === null ? 'folders only' : row.power)),
    column('PID', (row) => row.pid),
    column('FILES', (row) => row.hasFiles),
  ],
}

export const listOrphans: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const found = await call(run, api.listOrphans, { params: { nodeId: id } })
  await run.out.list(found, ORPHAN)
  if (found.length === api.MOST_ORPHANS)
    run.notice(`there may be more than these ${found.length}: purge some and list again`)
}

export const adoptOrphan: Action = async (run) => {
  const params = await paramsOf(run)
  const made = await call(run, api.adoptOrphan, { params, body: await fieldsOf(run) })
  if (run.out.machine) return run.out.value(made)
  await run.out.text(`${made.serverId}\n`)
  for (const conflict of made.conflicts) run.notice(conflict)
  run.notice(`${made.name} is a server of the panel again`)
}

export const purgeOrphan: Action = async (run) => {
  const params = await paramsOf(run)
  await run.prompt.confirm(`End what runs of ${params.serverId} and delete its files? They cannot be brought back.`)
  const made = await call(run, api.purgeOrphan, { params })
  if (run.out.machine) return run.out.value(made)
  run.notice(`requested removal of ${params.serverId} from the node`)
}

async function paramsOf(run: Run): Promise<{ nodeId: string; serverId: string }> {
  const { id } = await subjectOf(run, SUBJECT)
  return { nodeId: id, serverId: run.args.word('server') ?? '' }
}
