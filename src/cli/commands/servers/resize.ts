import { resizeStorage } from '../../../shared/api/servers.ts'
import type { Data } from '../../../shared/kernel/contract.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure } from '../../kit/failure.ts'
import { column, type View } from '../../kit/output/view.ts'
import { call, subjectOf } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { waitTimeout, wantsToWait } from './power.ts'
import { readServer, watchServer } from './watch.ts'

type Resized = Data<typeof resizeStorage>

/** Changes the disk limit; with `--wait` the node has it when this returns. */
export const resizeServer: Action = async (run) => {
  const { id } = await subjectOf(run, { ref: 'server', param: 'serverId' })
  const body = await fieldsOf(run)
  const server = await readServer(run, id)
  const order = (): Promise<Resized> => call(run, resizeStorage, { params: { serverId: id }, body })
  const view: View<Resized> = {
    id: () => id,
    name: () => server.name,
    columns: [
      column('NAME', () => server.name),
      column('DISK', (row) => ({ mib: row.allocatedDiskMb })),
      column('BEFORE', (row) => ({ mib: row.previousDiskMb })),
    ],
  }
  if (!wantsToWait(run)) return run.out.item(await order(), view)
  let ordered: Resized | undefined
  const resized = await watchServer(run, { server, timeoutMs: waitTimeout(run) }, async (tick) => {
    ordered ??= await order()
    if (ordered.commandId === null) return ordered
    if (tick.kind === 'deleted') throw new CliFailure('OPERATION_FAILED', `${server.name}: it was deleted`)
    if (tick.kind !== 'done' || tick.order.commandId !== ordered.commandId) return undefined
    if (tick.order.ok) return ordered
    const reason = tick.order.error ?? tick.order.code ?? 'the agent could not do it'
    throw new CliFailure('OPERATION_FAILED', `${server.name}: ${reason}`)
  })
  await run.out.item(resized, view)
}
