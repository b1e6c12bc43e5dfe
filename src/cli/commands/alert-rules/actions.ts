import * as api from '../../../shared/api/alert-rules.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, view, wide } from '../../kit/output/view.ts'
import { call, deleteAction, subjectOf, viewAction } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'

const VIEW = view<api.AlertRule>([
  column('NAME', (row) => row.name),
  column('TYPE', (row) => row.type),
  column('ABOUT', (row) => row.targetId ?? row.target),
  column('WHEN', (row) => whenOf(row)),
  column('NOTIFIES', (row) => notifiesOf(row)),
  column('ENABLED', (row) => row.enabled),
  column('ID', (row) => row.id),
  wide('OWNER', (row) => row.userId),
  wide('DESCRIPTION', (row) => row.description),
  wide('CREATED', (row) => ({ time: row.createdAt })),
])

const SUBJECT = { ref: 'alertRule', param: 'ruleId', word: 'rule' } as const

export const listRules = listAction(api.listAlertRules, VIEW, async ({ args }) => {
  const enabled = args.choice('enabled')
  return { query: { ...(args.flag('mine') ? { scope: 'mine' } : {}), ...(enabled === undefined ? {} : { enabled }) } }
})
export const viewRule = viewAction(api.getAlertRule, SUBJECT, VIEW)
export const deleteRule = deleteAction(api.deleteAlertRule, SUBJECT, 'alert rule')

export const createRule: Action = async (run) => {
  const body: Record<string, unknown> = { ...(await bodyOf(run)), ...(await targetOf(run)) }
  if (body['target'] === undefined)
    throw usage('--server, --node or --global must say what it is about', 'panel alert-rules create --help')
  const made = await call(run, api.createAlertRule, { params: {}, body })
  await run.out.item(made, VIEW)
  showSecret(run, made)
}

export const editRule: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const body = await bodyOf(run)
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', 'panel alert-rules edit --help')
  const params = { ruleId: id }
  // An option changes one condition or action; the API takes all of them together.
  if (body['conditions'] !== undefined || body['actions'] !== undefined) {
    const before = await call(run, api.getAlertRule, { params })
    if (body['conditions'] !== undefined) body['conditions'] = { ...before.conditions, ...Object(body['conditions']) }
    if (body['actions'] !== undefined) body['actions'] = { ...before.actions, ...Object(body['actions']) }
  }
  const made = await call(run, api.updateAlertRule, { params, body })
  await run.out.item(made, VIEW)
  showSecret(run, made)
}

export const testRule: Action = async (run) => {
  const { id, name } = await subjectOf(run, SUBJECT)
  const alert = await call(run, api.testAlertRule, { params: { ruleId: id } })
  if (run.out.machine) return run.out.value(alert)
  run.notice(`${name} notifies everybody; what becomes of it: panel alerts deliveries ${alert.id}`)
}

/** On a terminal the secret is not part of the table. */
function showSecret(run: Run, { webhookSecret }: { readonly webhookSecret: string | null }): void {
  if (webhookSecret === null || run.out.machine) return
  run.notice(`requests to its webhooks are signed with ${webhookSecret}; it is shown this once`)
}

const CONDITIONS = ['cpuThreshold', 'memoryThreshold', 'diskThreshold', 'durationSeconds', 'offlineThreshold']
const ACTIONS = ['emails', 'webhooks', 'notifyOwner', 'createAlert', 'cooldownMinutes']

/** The options as the API groups them. A body file already has the groups; options are added to them. */
async function bodyOf(run: Run): Promise<Record<string, unknown>> {
  const fields = await fieldsOf(run)
  const body: Record<string, unknown> = {}
  const groups = { conditions: CONDITIONS, actions: ACTIONS }
  for (const [name, value] of Object.entries(fields)) {
    const group = Object.entries(groups).find(([, names]) => names.includes(name))?.[0]
    if (group === undefined) body[name] = name in groups ? { ...Object(value), ...Object(body[name]) } : value
    else body[group] = { ...Object(body[group]), [name]: value }
  }
  const enabled = run.args.choice('enabled')
  return enabled === undefined ? body : { ...body, enabled }
}

async function targetOf(run: Run): Promise<Record<string, unknown>> {
  const [server, node] = [run.args.text('server'), run.args.text('node')]
  if (server !== undefined && node !== undefined) throw usage('--server and --node exclude each other')
  if (server !== undefined) return { target: 'server', targetId: (await resolve(run, 'server', server)).id }
  if (node !== undefined) return { target: 'node', targetId: (await resolve(run, 'node', node)).id }
  return run.args.flag('global') ? { target: 'global' } : {}
}

function whenOf({ type, conditions }: api.AlertRule): string {
  const { cpuThreshold, memoryThreshold, diskThreshold, durationSeconds, offlineThreshold } = conditions
  if (type === 'node_offline') return `away ${offlineThreshold ?? 5}m`
  const parts = Object.entries({ cpu: cpuThreshold, memory: memoryThreshold, disk: diskThreshold })
  const limits = parts.flatMap(([name, value]) => (value === undefined ? [] : [`${name} ≥ ${value}%`]))
  return durationSeconds === undefined ? limits.join(', ') : `${limits.join(', ')} for ${durationSeconds}s`
}

function notifiesOf({ actions }: api.AlertRule): string {
  const { emails = [], webhooks = [], notifyOwner } = actions
  return [...(notifyOwner === true ? ['owner'] : []), ...emails, ...webhooks].join(', ')
}
