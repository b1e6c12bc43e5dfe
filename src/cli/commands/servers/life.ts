import * as api from '../../../shared/api/server-life.ts'
import { parseDuration } from '../../../shared/kernel/clock.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, type View, view, wide } from '../../kit/output/view.ts'
import { parsePair, readPairs } from '../../kit/read-file.ts'
import { call, editAction, subjectOf } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'
import { readServer } from './watch.ts'

const SUBJECT = { ref: 'server', param: 'serverId' } as const

interface Policy {
  readonly restartPolicy: string
  readonly maxCrashCount: number
}

const POLICY: View<Policy> = {
  id: () => '',
  name: () => '',
  columns: [column('RESTART', (row) => row.restartPolicy), column('MAX CRASHES', (row) => row.maxCrashCount)],
}

export const setPolicy = editAction(api.setRestartPolicy, SUBJECT, POLICY)

export const resetCrashes: Action = async (run) => {
  const { id, name } = await subjectOf(run, SUBJECT)
  await call(run, api.resetCrashCount, { params: { serverId: id } })
  if (run.out.machine) return run.out.value({ id, reset: true })
  run.notice(`forgave the crashes of ${name}`)
}

export const acceptEula: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const { name, eula } = await readServer(run, id)
  // The daemon says why there is nothing to accept.
  if (eula === null) return await answer(run, id, true)
  if (!run.out.machine) run.notice(`${eula.file} of ${name}:\n${eula.text}\n`)
  await run.prompt.confirm(`Do you accept this agreement for ${name}?`)
  await answer(run, id, true)
  if (!run.out.machine) run.notice(`accepted; start it: panel servers start ${name}`)
}

export const declineEula: Action = async (run) => {
  const { id, name } = await subjectOf(run, SUBJECT)
  await answer(run, id, false)
  if (!run.out.machine) run.notice(`declined; ${name} does not start before it is accepted`)
}

async function answer(run: Run, serverId: string, accepted: boolean): Promise<void> {
  await call(run, api.answerServerEula, { params: { serverId }, body: { accepted } })
  if (run.out.machine) await run.out.value({ id: serverId, accepted })
}

const VARIABLE = view<api.ServerVariable & { readonly id: string }>([
  column('NAME', (row) => row.name),
  column('VALUE', (row) => row.value),
  column('DEFAULT', (row) => row.default),
  column('RULES', (row) => row.rules.join('|')),
  wide('TITLE', (row) => row.displayName),
  wide('REQUIRED', (row) => row.required),
  wide('EDITABLE', (row) => row.userEditable),
])

export const listVariables: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const found = await call(run, api.listServerVariables, { params: { serverId: id } })
  if (run.out.machine) return run.out.value(found)
  await run.out.list(
    found.map((row) => ({ ...row, id: row.name })),
    VARIABLE,
  )
}

export const setVariables: Action = async (run) => {
  const { id, name } = await subjectOf(run, SUBJECT)
  const file = run.args.text('env-file')
  const pairs = run.args.words('variables').map((text) => parsePair(text, 'variables'))
  const body = { ...(file === undefined ? {} : await readPairs(file)), ...Object.fromEntries(pairs) }
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', 'panel servers variables set --help')
  const after = await call(run, api.setServerVariables, { params: { serverId: id }, body })
  if (run.out.machine) return run.out.value(after)
  run.notice(`changed ${Object.keys(body).join(', ')} of ${name}; in force at its next start`)
}

/** The fields of a creation and an edit whose flags have a word for "as it is by default". */
export function addLifeFields(run: Run, body: Record<string, unknown>): void {
  const timeout = run.args.text('stop-timeout')
  if (timeout !== undefined) body['stopTimeoutSeconds'] = timeout === 'default' ? null : secondsOf(timeout)
  const zone = run.args.text('time-zone')
  if (zone !== undefined) body['timeZone'] = zone === 'node' ? null : zone
}

function secondsOf(text: string): number {
  const ms = parseDuration(text)
  if (ms === undefined) throw usage(`--stop-timeout must be a duration such as 30s, or default, not '${text}'`)
  if (ms % 1000 !== 0) throw usage(`--stop-timeout must be whole seconds, not '${text}'`)
  return ms / 1000
}
