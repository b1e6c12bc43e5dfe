import type {
  AlertActions,
  AlertConditions,
  AlertRuleType,
  createAlertRule,
  updateAlertRule,
} from '../../../../shared/api/alert-rules.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import { changes } from '../../../access/audit.ts'
import type { OperationDeps, Outcome, WorkOver } from '../../../access/operation.ts'
import type { Holder } from '../../../access/permit.ts'
import { newSecret } from '../../../core/secrets.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Tx } from '../../../db/db.ts'
import { shownUrl, targetProblem } from '../webhooks/target-url.ts'
import { openOfRule } from './alert-rows.ts'
import { mayMailAnybody, readerProblem } from './mail-addresses.ts'
import { opened } from './notification-targets.ts'
import { type RaiseDeps, resolveOpen } from './raise.ts'
import { actionsOf, type RuleRow, sealedUnder, toRule } from './rule-rows.ts'

/** What writing rules needs. */
export interface RuleDeps extends RaiseDeps, OperationDeps {
  readonly settings: Settings
}

type Creation = Input<typeof createAlertRule>['body']
type Edit = Input<typeof updateAlertRule>['body']

/** Refuses conditions that the type does not look at: a rule that could never fire would be no rule. */
export function checkConditions(type: AlertRuleType | 'custom', conditions: AlertConditions): void {
  const { offlineThreshold, ...thresholds } = conditions
  const [some] = Object.keys(thresholds)
  if (type === 'resource_threshold') {
    if (offlineThreshold !== undefined)
      throw fieldError('body.conditions.offlineThreshold', 'belongs to rules of the type node_offline')
    const { cpuThreshold, memoryThreshold, diskThreshold } = conditions
    if ([cpuThreshold, memoryThreshold, diskThreshold].every((value) => value === undefined))
      throw fieldError('body.conditions', 'must have a cpuThreshold, memoryThreshold or diskThreshold')
    return
  }
  if (some !== undefined) throw fieldError(`body.conditions.${some}`, 'belongs to rules of the type resource_threshold')
  if (offlineThreshold !== undefined && type !== 'node_offline')
    throw fieldError('body.conditions.offlineThreshold', 'belongs to rules of the type node_offline')
}

const OF_SERVERS: ReadonlySet<Creation['type']> = new Set(['server_crashed', 'backup_failed', 'backup_overdue'])

/** Refuses a target that the type does not have. */
export function checkTarget({ type, target, targetId }: Pick<Creation, 'type' | 'target' | 'targetId'>): void {
  if (target === 'global' && targetId != null) throw fieldError('body.targetId', 'must be left out of a global rule')
  if (target !== 'global' && targetId == null) throw fieldError('body.targetId', `must be the id of a ${target}`)
  if (type === 'node_offline' && target === 'server')
    throw fieldError('body.target', 'must be node or global: servers have no connection of their own')
  if (OF_SERVERS.has(type) && target === 'node') throw fieldError('body.target', 'must be server or global')
}

/** A rule that is being made. */
interface Making {
  readonly id: string
  readonly body: Creation
  readonly userId: string | null
  readonly holder: Holder
}

/** Writes a new rule; the answer shows the secret that its webhooks are signed with. */
export async function insertRule(tx: Tx, deps: RuleDeps, { id, body, userId, holder }: Making) {
  await checkAddresses(tx, holder, { rule: body, actions: body.actions, before: undefined })
  const { shown, sealed, secret } = sealActions(deps, id, { actions: body.actions, before: undefined })
  const row: RuleRow = {
    id,
    name: body.name,
    description: body.description ?? null,
    enabled: body.enabled ? 1 : 0,
    type: body.type,
    target: body.target,
    targetId: body.targetId ?? null,
    userId,
    conditions: JSON.stringify(body.conditions),
    actions: JSON.stringify(shown),
    sealedWebhooks: sealed,
    createdAt: tx.now,
    updatedAt: tx.now,
  }
  await tx.q.insertInto('alertRule').values(row).execute()
  return { ...toRule(row), webhookSecret: secret }
}

/** Changes a rule; the same rule when nothing would change. */
export async function changeRule(
  { tx, deps, holder, userId }: WorkOver<RuleDeps>,
  { before, body }: { readonly before: RuleRow; readonly body: Edit },
): Promise<Outcome<typeof updateAlertRule>> {
  if (body.conditions !== undefined) checkConditions(before.type, body.conditions)
  const { id } = before
  const given = body.actions === undefined ? undefined : { actions: body.actions, before }
  if (given !== undefined) await checkAddresses(tx, holder, { rule: before, ...given })
  const written = given === undefined ? undefined : sealActions(deps, id, given)
  const row: RuleRow = {
    ...before,
    name: body.name ?? before.name,
    description: body.description === undefined ? before.description : body.description,
    enabled: body.enabled === undefined ? before.enabled : body.enabled ? 1 : 0,
    conditions: body.conditions === undefined ? before.conditions : JSON.stringify(body.conditions),
    actions: written === undefined ? before.actions : JSON.stringify(written.shown),
    sealedWebhooks: written === undefined ? before.sealedWebhooks : written.sealed,
  }
  const changed = changes(fieldsOf(before), fieldsOf(row))
  const urlsChanged = written?.changed === true
  if (changed === undefined && !urlsChanged) return { answer: { ...toRule(before), webhookSecret: null } }
  const { createdAt: _, id: __, ...columns } = { ...row, updatedAt: tx.now }
  await tx.q.updateTable('alertRule').set(columns).where('id', '=', id).execute()
  if (before.enabled === 1 && row.enabled === 0) await resolveAllOf(tx, deps, id)
  const details = { ...changed, ...(urlsChanged ? { unseen: ['actions.webhooks'] } : {}) }
  return {
    answer: { ...toRule({ ...row, updatedAt: tx.now }), webhookSecret: written?.secret ?? null },
    audit: { resourceId: id, details },
    events: [{ type: 'alert_rule_updated', data: { ruleId: id, ruleName: row.name, updatedBy: userId } }],
  }
}

/** Resolves what a rule has raised: it does not look any more. */
export async function resolveAllOf(tx: Tx, deps: RaiseDeps, ruleId: string): Promise<void> {
  for (const { id } of await openOfRule(tx.q, ruleId)) await resolveOpen(tx, deps, id, null)
}

interface GivenActions {
  readonly rule: Pick<Creation, 'target' | 'targetId'>
  readonly actions: AlertActions
  readonly before: RuleRow | undefined
}

/** Refuses addresses that the rule did not have and to which it would send no mail. */
async function checkAddresses(tx: Tx, holder: Holder, { rule, actions, before }: GivenActions): Promise<void> {
  const { target, targetId = null } = rule
  const maker = before === undefined ? holder.userId : before.userId
  if (grants(holder.permissions, 'admin.write') && (maker === null || (await mayMailAnybody(tx, maker)))) return
  const had = new Set(before === undefined ? [] : actionsOf(before).emails)
  for (const [place, address] of (actions.emails ?? []).entries()) {
    if (had.has(address)) continue
    const problem = await readerProblem(tx, { target, targetId }, address)
    if (problem !== undefined) throw fieldError(`body.actions.emails.${place}`, problem)
  }
}

/** The fields that people edit, as the audit log shows them. */
export function fieldsOf(row: RuleRow) {
  const { name, description, conditions, actions, enabled } = toRule(row)
  return { name, description, conditions, actions, enabled }
}

/** Actions as they may be shown, and their URLs with the signing secret sealed. A URL that is sent back as it was shown is kept. */
function sealActions(
  { vault, settings }: Pick<RuleDeps, 'vault' | 'settings'>,
  ruleId: string,
  { actions, before }: { readonly actions: AlertActions; readonly before: RuleRow | undefined },
): { shown: AlertActions; sealed: string | null; secret: string | null; changed: boolean } {
  const { webhooks = [], ...rest } = actions
  const had = before?.sealedWebhooks ? opened(vault, ruleId, before.sealedWebhooks) : undefined
  if (webhooks.length === 0) return { shown: rest, sealed: null, secret: null, changed: had !== undefined }
  const shownBefore: (string | null)[] = before === undefined ? [] : [...(actionsOf(before).webhooks ?? [])]
  const urls = webhooks.map((text, place) => {
    const at = shownBefore.indexOf(text)
    const kept = had?.urls[at]
    // Several may be shown alike: each of them is meant once, in their order.
    if (at >= 0) shownBefore[at] = null
    if (kept !== undefined) return kept
    const problem = targetProblem(text, settings.get('webhooks.allowedRanges'))
    if (problem !== undefined) throw fieldError(`body.actions.webhooks.${place}`, problem)
    return text
  })
  const secret = had?.secret ?? `whsec_${newSecret()}`
  const sealed = vault.seal(sealedUnder(ruleId), JSON.stringify({ urls, secret }))
  const changed = JSON.stringify(urls) !== JSON.stringify(had?.urls)
  const shown = { ...rest, webhooks: urls.map((url) => shownUrl(url)) }
  return { shown, sealed: changed ? sealed : (before?.sealedWebhooks ?? sealed), secret: had ? null : secret, changed }
}
