import * as api from '../../../shared/api/allocations.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { call, deleted, ignoringNotFound } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import { resolve, resolveAllocation } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'

const VIEW: View<api.Allocation> = {
  id: (row) => row.id,
  name: (row) => `${row.ip}:${row.port}`,
  columns: [
    column('IP', (row) => row.ip),
    column('PORT', (row) => row.port),
    column('SERVER', (row) => row.server?.name),
    column('NAME', (row) => row.name),
    column('ALIAS', (row) => row.alias),
    column('ID', (row) => row.id),
    wide('ROLE', (row) => row.role),
    wide('PROTOCOL', (row) => row.protocol),
    wide('NOTES', (row) => row.notes),
    wide('CREATED', (row) => ({ time: row.createdAt })),
  ],
}

export const listAllocations = listAction(api.listAllocations, VIEW, async (run) => {
  const { args } = run
  if (args.flag('assigned') && args.flag('free')) throw usage('--assigned and --free exclude each other')
  const assigned = args.flag('assigned') ? 'true' : args.flag('free') ? 'false' : undefined
  return { params: { nodeId: await nodeOf(run) }, query: assigned === undefined ? {} : { assigned } }
})

export const addAllocations: Action = async (run) => {
  const params = { nodeId: await nodeOf(run) }
  const made = await call(run, api.createAllocations, { params, body: await fieldsOf(run) })
  if (run.out.machine) return run.out.value(made)
  run.notice(`${made.created} added${made.skipped === 0 ? '' : `, ${made.skipped} were there already`}`)
}

export const editAllocation: Action = async (run) => {
  const params = await address(run)
  const body = await fieldsOf(run)
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', '--alias or --note')
  await run.out.item(await call(run, api.updateAllocation, { params, body }), VIEW)
}

export const removeAllocation: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const params = await address(run)
    const name = run.args.required('allocation')
    await run.prompt.confirm(`Remove the allocation ${name}?`)
    await call(run, api.deleteAllocation, { params })
    await deleted(run, { id: params.allocationId, name })
  })
}

async function address(run: Run): Promise<{ nodeId: string; allocationId: string }> {
  const nodeId = await nodeOf(run)
  return { nodeId, allocationId: await resolveAllocation(run, nodeId, run.args.required('allocation')) }
}

async function nodeOf(run: Run): Promise<string> {
  const word = run.args.text('node')
  if (word === undefined) throw usage('--node <node> is required', 'panel nodes list')
  return (await resolve(run, 'node', word)).id
}
