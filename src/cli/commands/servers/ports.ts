import * as api from '../../../shared/api/server-allocations.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { call, deleted, ignoringNotFound, subjectOf } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import type { Run } from '../../kit/run.ts'
import { addressText } from './view.ts'

const SUBJECT = { ref: 'server', param: 'serverId' } as const

const VIEW: View<api.ServerAllocation> = {
  id: (row) => row.allocationId,
  name: (row) => row.name,
  columns: [
    column('NAME', (row) => row.name),
    column('PORT', (row) => row.port),
    column('PROTOCOL', (row) => row.protocol),
    column('ROLE', (row) => row.role),
    column('ADDRESS', (row) => addressText(row.host, row.port)),
    column('VARIABLE', (row) => row.variable),
    wide('IP', (row) => row.ip),
    wide('OFFSET', (row) => row.offset),
    wide('ALIAS', (row) => row.alias),
    wide('ID', (row) => row.allocationId),
  ],
}

export const listPorts: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  await run.out.list(await call(run, api.listServerAllocations, { params: { serverId: id } }), VIEW)
}

export const addPort: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const body = await fieldsOf(run)
  await run.out.item(await call(run, api.addServerAllocation, { params: { serverId: id }, body }), VIEW)
}

export const removePort: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const { id, name } = await subjectOf(run, SUBJECT)
    const port = await portOf(run, id)
    await run.prompt.confirm(`Take the port ${port.name} (${addressText(port.ip, port.port)}) from ${name}?`)
    const params = { serverId: id, containerPort: String(port.port) }
    await call(run, api.removeServerAllocation, { params, query: { ip: port.ip } })
    await deleted(run, { id: port.allocationId, name: port.name })
  })
}

export const makePrimary: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const { port, ip } = await portOf(run, id)
  const body = { containerPort: port, ip }
  await call(run, api.setPrimaryAllocation, { params: { serverId: id }, body })
  await run.out.list(await call(run, api.listServerAllocations, { params: { serverId: id } }), VIEW)
}

/** The port of the server that the word names. */
async function portOf(run: Run, serverId: string): Promise<api.ServerAllocation> {
  const word = run.args.required('port')
  const all = await call(run, api.listServerAllocations, { params: { serverId } })
  const found = all.filter((port) =>
    [port.name, String(port.port), addressText(port.ip, port.port), port.allocationId].includes(word),
  )
  const [only] = found
  if (only === undefined) {
    throw new CliFailure('NOT_FOUND', `this server has no port '${word}'`, {
      hint: 'panel servers ports list <server>',
    })
  }
  if (found.length === 1) return only
  throw usage(`'${word}' is a port at several addresses`, found.map(({ ip, port }) => addressText(ip, port)).join(', '))
}
