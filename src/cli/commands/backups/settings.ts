import * as api from '../../../shared/api/backups.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { call, subjectOf } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import { SERVER } from './address.ts'
import { SETTINGS } from './views.ts'

/** `panel backups settings`: shows them, or changes what is named. */
export const backupSettings: Action = async (run) => {
  const { id: serverId } = await subjectOf(run, SERVER)
  const body = { ...(await fieldsOf(run)), ...(await more(run)) }
  const endpoint = Object.keys(body).length === 0 ? api.getBackupSettings : api.updateBackupSettings
  await run.out.item(
    await call(run, endpoint, { params: { serverId }, ...(endpoint.method === 'GET' ? {} : { body }) }),
    SETTINGS,
  )
}

async function more(run: Run): Promise<Record<string, unknown>> {
  const body: Record<string, unknown> = {}
  const store = run.args.text('target')
  if (store !== undefined) body['storeId'] = store === 'default' ? null : (await resolve(run, 'backupStore', store)).id
  const limit = run.args.text('limit-mb')
  if (limit !== undefined) body['backupAllocationMb'] = limit === 'none' ? null : Number(limit)
  const labels = run.args.list('label')
  if (labels.length > 0) body['labels'] = labels.map(labelOf)
  if (run.args.flag('clear-labels')) body['labels'] = []
  if (run.args.flag('clear-exclude')) body['ignored'] = []
  for (const [name, field] of [
    ['quiesce', 'quiesceCommands'],
    ['resume', 'resumeCommands'],
  ] as const) {
    const commands = run.args.list(name)
    if (commands.length > 0) body[field] = commands.map(commandOf)
    if (run.args.flag(`clear-${name}`)) body[field] = []
  }
  return body
}

/** `weekly=4` keeps four, `weekly=4/60d` at most for sixty days. */
function labelOf(text: string): { label: string; retentionCount: number; retentionDays: number } {
  const match = /^([^=]+)=(\d{1,6})(?:\/(\d{1,6})d)?$/.exec(text)
  if (match === null) throw usage(`--label must be such as weekly=4 or weekly=4/60d, not '${text}'`)
  return { label: match[1] ?? '', retentionCount: Number(match[2]), retentionDays: Number(match[3] ?? 0) }
}

/** `save-off`, or with a line that is waited for: `save-all flush => Saved the game`. */
function commandOf(text: string): { command: string; waitFor: string | null } {
  const at = text.indexOf(' => ')
  return at < 0 ? { command: text, waitFor: null } : { command: text.slice(0, at), waitFor: text.slice(at + 4) }
}
