import type { MigrationPlan, PlanItem } from '../../../shared/api/migration.ts'
import { oneLine } from '../../kit/output/escape.ts'

/** How many differences are named. */
const MOST = 20

/** What differs between a plan that was looked at and one of now, a line each. */
export function driftBetween(before: MigrationPlan, after: MigrationPlan): string[] {
  const then = byStep(before)
  const now = byStep(after)
  const lines = [
    ...after.items.flatMap((item) => {
      const old = then.get(item.stepId)
      if (old === undefined) return [`+ ${nameOf(item)}: ${item.op}`]
      return old.op === item.op ? [] : [`~ ${nameOf(item)}: ${old.op} has become ${item.op}`]
    }),
    ...before.items.flatMap((item) => (now.has(item.stepId) ? [] : [`- ${nameOf(item)}: was ${item.op}`])),
    ...after.conflicts
      .filter(({ code, source }) => !before.conflicts.some((one) => one.code === code && one.source.id === source.id))
      .map(({ source, text }) => `! ${source.type} ${oneLine(source.name)}: ${oneLine(text)}`),
  ]
  if (lines.length === 0 && before.hash !== after.hash) return ['the same steps, of things whose content has changed']
  const more = lines.length - MOST
  return more > 0 ? [...lines.slice(0, MOST), `and ${more} more`] : lines
}

function byStep({ items }: MigrationPlan): ReadonlyMap<string, PlanItem> {
  return new Map(items.map((item) => [item.stepId, item]))
}

function nameOf({ source: { type, name } }: PlanItem): string {
  return `${type} ${oneLine(name)}`
}
