import { listAccessibleNodes } from '../../../shared/api/assignments.ts'
import * as api from '../../../shared/api/servers.ts'
import { getTemplate } from '../../../shared/api/templates.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { calledBy } from '../../kit/field-names.ts'
import { parsePair, readPairs } from '../../kit/read-file.ts'
import { call, subjectOf } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { resolveAllocation } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import { addLifeFields } from './life.ts'
import { failed, isReached, type Order } from './outcome.ts'
import { waitTimeout, wantsToWait } from './power.ts'
import { SERVER_VIEW } from './view.ts'
import { readServer, watchServer } from './watch.ts'

/** Creates a server; with `--wait` it is installed (and runs, with `--start`) when this returns. */
export const createServer: Action = async (run) => {
  const body = await fieldsOf(run)
  addLifeFields(run, body)
  await addPlace(run, body)
  await addSizes(run, body)
  await addAllocation(run, body, body['nodeId'])
  const environment = await environmentOf(run)
  if (environment !== undefined) body['environment'] = { ...record(body['environment']), ...environment }
  addMounts(run, body)
  const created = await call(run, api.createServer, { params: {}, body })
  if (!wantsToWait(run)) return run.out.item(created, SERVER_VIEW)
  if (!created.node.isOnline) {
    throw new CliFailure(
      'NODE_OFFLINE',
      `${created.name} (${created.id}) is made, but its node ${created.node.name} is offline`,
      {
        hint: `panel servers wait ${created.id} --for installed`,
      },
    )
  }
  await run.out.item(await untilReady(run, created, body['start'] === true), SERVER_VIEW)
}

/** Changes a server; `--env` changes the named variables and leaves the others. */
export const editServer: Action = async (run) => {
  const { id } = await subjectOf(run, { ref: 'server', param: 'serverId' })
  const body = await fieldsOf(run)
  addLifeFields(run, body)
  const environment = await environmentOf(run)
  const waits = environment !== undefined || AT_NEXT_START.some((field) => body[field] !== undefined)
  const before = waits || run.args.text('allocation') !== undefined ? await readServer(run, id) : undefined
  if (environment !== undefined) body['environment'] = { ...before?.environment, ...environment }
  await addAllocation(run, body, before?.nodeId)
  addMounts(run, body)
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', 'panel servers edit --help')
  const after = await call(run, api.updateServer, { params: { serverId: id }, body })
  await run.out.item(after, SERVER_VIEW)
  if (before !== undefined && after.appliesAt === 'next-start') noteWhatWaits(run, before, after)
}

/** What a run may have until it ends; the flags of other fields count at once. */
const AT_NEXT_START = [
  'environment',
  'startupCommand',
  'allocatedMemoryMb',
  'allocatedCpuCores',
  'allocatedSwapMb',
  'stopTimeoutSeconds',
  'timeZone',
  'cpuSet',
  'ioWeight',
  'image',
  'mounts',
] as const satisfies readonly (keyof api.Server)[]

function noteWhatWaits(run: Run, before: api.Server, after: api.Server): void {
  const changed = AT_NEXT_START.filter((field) => JSON.stringify(before[field]) !== JSON.stringify(after[field]))
  if (changed.length === 0 || !['starting', 'running', 'stopping'].includes(after.powerState)) return
  const flags = changed.map((field) => calledBy(run.command, field)).join(', ')
  run.notice(`${flags}: in force at the next start of ${after.name} (panel servers restart ${after.name})`)
}

async function untilReady(run: Run, created: api.Server, start: boolean): Promise<api.Server> {
  const order: Order = { action: 'install', generation: created.generation, commandId: '', start }
  run.signal.addEventListener('abort', () => run.notice(`\nstopped waiting; ${created.name} (${created.id}) is made`))
  return watchServer(run, { server: created, timeoutMs: waitTimeout(run) }, async (tick) => {
    if (tick.kind === 'deleted') throw new CliFailure('OPERATION_FAILED', `${created.name}: it was deleted`)
    const now = await readServer(run, created.id)
    // A fresh server has no earlier state that could be mistaken for the outcome, and its orders belong to its creation.
    const done = tick.kind === 'done' ? tick.order : undefined
    if (start && hasEnded(now)) throw failed(now, now.reason ?? 'it ended again')
    return isReached(order, now, { before: created, done, moved: true }) ? now : undefined
  })
}

/** Whether a fresh server's first start is over: it could not be started, or it ran and ended. */
function hasEnded(server: api.Server): boolean {
  if (!server.installed || server.status !== 'stopped') return false
  return server.reason !== null || server.lastExitCode !== null || server.lastExitSignal !== null
}

/** The location is that of the node; the node may be left out when there is only one. */
async function addPlace(run: Run, body: Record<string, unknown>): Promise<void> {
  if (body['nodeId'] !== undefined && body['locationId'] !== undefined) return
  const { data, pagination } = await (await run.client()).page(listAccessibleNodes, { query: { limit: 100 } })
  if (body['nodeId'] === undefined) {
    const [only] = data
    if (only === undefined || pagination.total > 1) throw usage('--node <node> is required', 'panel nodes accessible')
    body['nodeId'] = only.id
  }
  const node = data.find(({ id }) => id === body['nodeId'])
  if (body['locationId'] === undefined && node !== undefined) body['locationId'] = node.locationId
}

async function addSizes(run: Run, body: Record<string, unknown>): Promise<void> {
  const { templateId } = body
  const missing = ['allocatedMemoryMb', 'allocatedCpuCores', 'allocatedDiskMb'].some((size) => body[size] === undefined)
  if (typeof templateId !== 'string' || !missing) return
  const template = await (await run.client()).call(getTemplate, { params: { templateId } })
  body['allocatedMemoryMb'] ??= template.allocatedMemoryMb
  body['allocatedCpuCores'] ??= template.allocatedCpuCores
  body['allocatedDiskMb'] ??= template.allocatedDiskMb
}

async function addAllocation(run: Run, body: Record<string, unknown>, nodeId: unknown): Promise<void> {
  const word = run.args.text('allocation')
  if (word !== undefined && typeof nodeId === 'string')
    body['allocationId'] = await resolveAllocation(run, nodeId, word)
}

/** `source:target`, with `:ro` for what is only read; an empty one alone stands for none. */
function addMounts(run: Run, body: Record<string, unknown>): void {
  const given = run.args.list('mount')
  if (given.length === 0) return
  body['mounts'] = given
    .filter((text) => text !== '')
    .map((text) => {
      const [source = '', target = '', mode, more] = text.split(':')
      if (
        source === '' ||
        target === '' ||
        more !== undefined ||
        (mode !== undefined && mode !== 'ro' && mode !== 'rw')
      ) {
        throw usage(`--mount must be source:target or source:target:ro, not '${text}'`)
      }
      return { source, target, readOnly: mode === 'ro' }
    })
}

async function environmentOf(run: Run): Promise<Record<string, string> | undefined> {
  const file = run.args.text('env-file')
  const pairs = run.args.list('env').map((text) => parsePair(text, '--env'))
  if (file === undefined && pairs.length === 0) return undefined
  return { ...(file === undefined ? {} : await readPairs(file)), ...Object.fromEntries(pairs) }
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
