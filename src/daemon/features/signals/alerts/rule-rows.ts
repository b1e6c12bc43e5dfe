import { z } from 'zod'
import {
  AlertActions,
  AlertConditions,
  type AlertRule,
  type listAlertRules,
} from '../../../../shared/api/alert-rules.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import type { Caller } from '../../../access/caller.ts'
import type { Holder } from '../../../access/permit.ts'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import { textMatches } from '../../../db/text-search.ts'
import { reachOfKey } from './reach.ts'

/** A rule's row. */
export type RuleRow = NonNullable<Awaited<ReturnType<typeof findRule>>>

/** The URLs of a rule and what requests to them are signed with. */
export const RuleWebhooks = z.object({ urls: z.array(z.string()), secret: z.string() })
export type RuleWebhooks = z.infer<typeof RuleWebhooks>

/** Minutes that a rule keeps quiet about the same thing, unless it says otherwise. */
export const COOLDOWN_MINUTES = 5

/** Under which name the URLs of a rule are sealed. */
export function sealedUnder(ruleId: string): string {
  return `alert_rule.webhooks ${ruleId}`
}

/** One rule. */
export async function findRule(q: Queries, id: string) {
  return q.selectFrom('alertRule').selectAll().where('id', '=', id).executeTakeFirst()
}

/** The enabled rules of these types. */
export async function enabledRules(q: Queries, types: readonly RuleRow['type'][]): Promise<RuleRow[]> {
  const query = q
    .selectFrom('alertRule')
    .selectAll()
    .where('enabled', '=', 1)
    .where('type', 'in', [...types])
  return query.orderBy('id').execute()
}

/** Whether the caller sees the rules of everybody. */
export function seesAllRules(caller: Pick<Holder, 'permissions'>): boolean {
  return grants(caller.permissions, 'admin.read')
}

/** Whether the caller sees this rule: as an administrator or as its owner, by a key as far as that may read alerts. */
export function seesRule(caller: Holder, { userId, targetId }: Pick<RuleRow, 'userId' | 'targetId'>): boolean {
  if (seesAllRules(caller)) return true
  const only = reachOfKey(caller)
  return userId === caller.userId && (only === null || (targetId !== null && only.includes(targetId)))
}

/** One page of rules by name: all, or those that are the caller's own. */
export async function listRules(
  q: Queries,
  owner: Caller | null,
  query: Omit<Input<typeof listAlertRules>['query'], 'scope'>,
) {
  let matching = q.selectFrom('alertRule')
  if (owner !== null) {
    const only = reachOfKey(owner)
    matching = matching.where('userId', '=', owner.userId)
    if (only !== null && !seesAllRules(owner)) matching = matching.where('targetId', 'in', [...only])
  }
  for (const column of ['type', 'target', 'targetId'] as const) {
    const value = query[column]
    if (value !== undefined) matching = matching.where(column, '=', value)
  }
  if (query.enabled !== undefined) matching = matching.where('enabled', '=', query.enabled ? 1 : 0)
  if (query.search !== undefined) matching = matching.where(textMatches(query.search, 'id', ['name', 'description']))
  const page = matching.selectAll().orderBy('name').orderBy('id').limit(query.limit).offset(offsetOf(query))
  const items = (await page.execute()).map(toRule)
  return { items, total: await totalOf(q, matching, { query, found: items.length }) }
}

/** What the rule looks for. */
export function conditionsOf(row: Pick<RuleRow, 'conditions'>): AlertConditions {
  return parseJson(AlertConditions, row.conditions)
}

/** What the rule does; its URLs as they may be shown. */
export function actionsOf(row: Pick<RuleRow, 'actions'>): AlertActions {
  return parseJson(AlertActions, row.actions)
}

/** A rule as the API answers it. */
export function toRule(row: RuleRow): z.input<typeof AlertRule> {
  const { id, name, description, target, targetId, userId, createdAt, updatedAt } = row
  const type = row.type === 'custom' ? 'resource_threshold' : row.type // no rule is stored as custom
  const looks = { conditions: conditionsOf(row), actions: actionsOf(row) }
  const about = { type, target, targetId, userId, ...looks }
  return { id, name, description, enabled: row.enabled === 1, ...about, createdAt, updatedAt }
}
