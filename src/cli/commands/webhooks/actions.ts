import * as api from '../../../shared/api/webhooks.ts'
import type { Action } from '../../kit/command.ts'
import { CLI_FAILURES, usage } from '../../kit/failure.ts'
import { instantOf } from '../../kit/instant.ts'
import { column, type View, view, wide } from '../../kit/output/view.ts'
import { readSecret } from '../../kit/prompt.ts'
import { call, deleteAction, subjectOf, viewAction } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import type { Run } from '../../kit/run.ts'

const VIEW = view<api.Webhook>([
  column('NAME', (row) => row.name),
  column('FORMAT', (row) => row.format),
  column('URL', (row) => row.url),
  column('EVENTS', (row) => row.events.join(',')),
  column('ENABLED', (row) => row.enabled),
  column('FAILING', (row) => ({ time: row.failingSince })),
  column('ID', (row) => row.id),
  wide('LAST SUCCESS', (row) => ({ time: row.lastSuccessAt })),
  wide('LAST ERROR', (row) => row.lastError),
  wide('SWITCHED OFF', (row) => row.disabledReason),
  wide('CREATED', (row) => ({ time: row.createdAt })),
])

const DELIVERIES: View<api.WebhookDelivery> = {
  id: (row) => row.id,
  name: (row) => row.event,
  columns: [
    column('WHEN', (row) => ({ time: row.createdAt })),
    column('EVENT', (row) => row.event),
    column('STATUS', (row) => row.status),
    column('ATTEMPTS', (row) => row.attempts),
    column('HTTP', (row) => row.lastStatus),
    column('NEXT', (row) => ({ time: row.nextAttemptAt })),
    column('ERROR', (row) => row.lastError),
    column('ID', (row) => row.id),
  ],
}

const ATTEMPTS: View<api.DeliveryAttempt> = {
  id: (row) => String(row.number),
  name: (row) => String(row.number),
  columns: [
    column('ATTEMPT', (row) => row.number),
    column('WHEN', (row) => ({ time: row.startedAt })),
    column('MS', (row) => row.durationMs),
    column('HTTP', (row) => row.status),
    column('ERROR', (row) => row.error),
    column('ANSWER', (row) => row.response),
  ],
}

type Tested = Awaited<ReturnType<typeof tested>>

const TEST: View<Tested> = {
  id: (row) => row.deliveryId,
  name: (row) => row.deliveryId,
  columns: [
    column('OK', (row) => row.ok),
    column('HTTP', (row) => row.status),
    column('MS', (row) => row.durationMs),
    column('ERROR', (row) => row.error),
    column('ANSWER', (row) => row.response),
    column('DELIVERY', (row) => row.deliveryId),
  ],
}

const SUBJECT = { ref: 'webhook', param: 'webhookId' } as const

export const listWebhooks = listAction(api.listWebhooks, VIEW, async ({ args }) => {
  const enabled = args.choice('enabled')
  return { query: enabled === undefined ? {} : { enabled } }
})
export const viewWebhook = viewAction(api.getWebhook, SUBJECT, VIEW)
export const deleteWebhook = deleteAction(api.deleteWebhook, SUBJECT, 'webhook')

/** Prints the secret alone on stdout when the panel has made it. */
export const createWebhook: Action = async (run) => {
  const made = await call(run, api.createWebhook, { params: {}, body: await bodyOf(run) })
  await showSecret(run, made)
}

export const editWebhook: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const rotate = run.args.flag('rotate-secret') ? { rotateSecret: true } : {}
  const body = { ...(await bodyOf(run)), ...rotate }
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', 'panel webhooks edit --help')
  await showSecret(run, await call(run, api.updateWebhook, { params: { webhookId: id }, body }))
}

export const testWebhook: Action = async (run) => {
  const result = await tested(run)
  await run.out.item(result, TEST)
  return result.ok ? 0 : CLI_FAILURES.OPERATION_FAILED
}

export const webhookDeliveries = listAction(api.listWebhookDeliveries, DELIVERIES, async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const from = instantOf(run, 'since')
  const status = run.args.flag('failed') ? { status: 'failed' } : {}
  return { params: { webhookId: id }, query: { ...status, ...(from === undefined ? {} : { from }) } }
})

export const webhookDelivery: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const params = { webhookId: id, deliveryId: run.args.required('delivery') }
  const found = await call(run, api.getWebhookDelivery, { params })
  if (run.out.machine) return run.out.value(found)
  await run.out.item(found, DELIVERIES)
  await run.out.list(found.log, ATTEMPTS)
}

export const redeliver: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const params = { webhookId: id, deliveryId: run.args.required('delivery') }
  await run.out.item(await call(run, api.redeliverWebhook, { params }), DELIVERIES)
}

async function tested(run: Run) {
  const { id } = await subjectOf(run, SUBJECT)
  return call(run, api.testWebhook, { params: { webhookId: id } })
}

async function bodyOf(run: Run): Promise<Record<string, unknown>> {
  const body = await fieldsOf(run)
  body['url'] ??= run.args.text('to')
  if (body['url'] === undefined) delete body['url']
  if (run.args.flag('secret-stdin') || run.args.text('secret-file') !== undefined)
    body['secret'] = await readSecret({ name: 'secret', question: 'Secret:' }, run)
  const enabled = run.args.choice('enabled')
  return enabled === undefined ? body : { ...body, enabled }
}

async function showSecret(run: Run, made: api.Webhook & { readonly secret: string | null }): Promise<void> {
  if (run.out.machine) return run.out.value(made)
  if (made.secret === null) return run.out.item(made, VIEW)
  await run.out.text(`${made.secret}\n`)
  run.notice(`the webhook ${made.name} (${made.id}) is signed with this secret; it is shown this once`)
}
