import * as api from '../../../../shared/api/templates.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Action } from '../../../kit/command.ts'
import { CliFailure } from '../../../kit/failure.ts'
import { column, type View, wide } from '../../../kit/output/view.ts'
import { forEach } from '../../../kit/resource/bulk.ts'
import { fieldsOf } from '../../../kit/resource/fields.ts'
import { hasNextPage } from '../../../kit/resource/next-page.ts'
import type { Run } from '../../../kit/run.ts'
import { DIFFERENCES, type DifferenceRow, shown } from '../differences.ts'
import { readSource } from './read-source.ts'
import {
  eggsOf,
  type KnownPlan,
  type NewPlan,
  type Plan,
  plansOf,
  type RefusedPlan,
  type SourceEgg,
} from './source-eggs.ts'

interface EggRow {
  readonly path: string
  /** `imported` and `updated` are what was done. */
  readonly status: Plan['kind'] | 'imported' | 'updated'
  readonly name: string
  readonly format: string | null
  readonly uuid: string | null
  readonly template: string | null
  readonly templateId: string | null
  readonly changes: readonly string[]
  readonly why: string | null
}

const EGGS: View<EggRow> = {
  columns: [
    column('STATUS', (row) => row.status),
    column('NAME', (row) => row.name),
    column('FORMAT', (row) => row.format),
    column('TEMPLATE', (row) => row.template),
    column('CHANGES', (row) => (row.changes.length === 0 ? null : row.changes.length)),
    column('EGG', (row) => row.path),
    column('WHY', (row) => row.why),
    wide('UUID', (row) => row.uuid),
    wide('FIELDS', (row) => (row.changes.length === 0 ? null : row.changes.join(', '))),
  ],
  id: (row) => row.templateId ?? row.path,
  name: (row) => row.name,
}

/** The eggs of a source, and which of them the panel has. */
export const listSource: Action = async (run) => {
  await run.out.list((await plansOfSource(run)).map(rowOf), EGGS)
}

type EggDifference = DifferenceRow & { readonly egg: string; readonly template: string }

const EGG_DIFFERENCES: View<EggDifference> = {
  columns: [column('TEMPLATE', (row) => row.template), ...DIFFERENCES.columns, wide('EGG', (row) => row.egg)],
  id: (row) => row.field,
  name: (row) => row.field,
}

/** What the eggs of a source would change. */
export const diffSource: Action = async (run) => {
  const plans = await plansOfSource(run)
  const rows = plans.flatMap((plan) => {
    if (plan.kind !== 'changed') return []
    return plan.changes.map((change) => ({ egg: plan.path, template: plan.template.name, ...change }))
  })
  const added = plans.filter(({ kind }) => kind === 'new')
  if (added.length > 0) run.notice(`${added.length} of them are new: panel templates sources list`)
  if (rows.length === 0) run.notice('no template would change')
  await run.out.list(rows, EGG_DIFFERENCES)
}

type Doable = NewPlan | (KnownPlan & { readonly kind: 'changed' })

/** Imports and updates after a question; each egg by itself, so that one that fails leaves the others. */
export const importSource: Action = async (run) => {
  const only = run.args.text('only')
  const plans = await plansOfSource(run)
  const refused = plans.filter((plan): plan is RefusedPlan => plan.kind === 'refused')
  if (run.args.words('egg').length > 0) refuseNamed(refused)
  const wanted = plans.filter(
    (plan): plan is Doable => (plan.kind === 'new' || plan.kind === 'changed') && (only ?? plan.kind) === plan.kind,
  )
  const passedOver = refused.length === 0 ? 0 : 3
  for (const plan of refused) run.terminal.say(`${plan.path} cannot be imported: ${plan.why}`)
  if (run.args.flag('dry-run')) {
    await run.out.list([...wanted, ...refused].map(rowOf), EGGS)
    run.notice('nothing was changed')
    return passedOver
  }
  if (wanted.length === 0) {
    run.notice('the panel has them all as they are')
    await run.out.list([], EGGS)
    return passedOver
  }
  showPlans(run, wanted)
  await run.prompt.confirm(question(wanted))
  const { nestId } = await fieldsOf(run)
  const done: EggRow[] = []
  const things = wanted.map((plan) => ({ id: plan.path, name: plan.egg.template.name, plan }))
  const code = await forEach(run, things, async ({ plan }) => {
    done.push(await carryOut(run, plan, { part: String(wanted.indexOf(plan)), nestId }))
  })
  await run.out.list(done, EGGS)
  return code === 0 ? passedOver : code
}

/** The eggs that are asked for, each with what importing it would do. */
async function plansOfSource(run: Run): Promise<Plan[]> {
  const from = run.args.required('from')
  const eggs = chosen(run, eggsOf(await readSource(run, from)), from)
  return plansOf(eggs, await allTemplates(run))
}

function chosen(run: Run, eggs: readonly SourceEgg[], from: string): readonly SourceEgg[] {
  if (eggs.length === 0) throw new CliFailure('NO_MATCH', `${from} holds no egg of Pterodactyl or Pelican`)
  const words = run.args.words('egg')
  if (words.length === 0) return eggs
  const isNamed = (one: SourceEgg, word: string): boolean =>
    one.path === word ||
    one.path.endsWith(`/${word}`) ||
    ('egg' in one && (one.egg.origin.uuid === word || one.egg.template.name.toLowerCase() === word.toLowerCase()))
  const lost = words.find((word) => !eggs.some((one) => isNamed(one, word)))
  if (lost !== undefined) throw new CliFailure('NOT_FOUND', `${from} holds no egg ${lost}`)
  return eggs.filter((one) => words.some((word) => isNamed(one, word)))
}

async function allTemplates(run: Run): Promise<api.Template[]> {
  const client = await run.client()
  const templates: api.Template[] = []
  for (let page = 1; ; page++) {
    const { data, pagination } = await client.page(api.listTemplates, { query: { page, limit: 100 } })
    templates.push(...data)
    if (!hasNextPage(pagination, data.length)) return templates
  }
}

function refuseNamed(refused: readonly RefusedPlan[]): void {
  if (refused.length === 0) return
  const details = refused.map(({ path, why }) => ({ field: path, message: why }))
  throw new PanelError('VALIDATION_ERROR', 'Eggs that were named cannot be imported', { details })
}

function showPlans(run: Run, plans: readonly Doable[]): void {
  for (const plan of plans) {
    if (plan.kind === 'new') run.notice(`new: ${plan.egg.template.name} (${plan.path})`)
    else {
      run.notice(`changed: ${plan.template.name} (${plan.path})`)
      for (const { field, from, to } of plan.changes) run.notice(`  ${field}: ${brief(from)} -> ${brief(to)}`)
    }
  }
}

function brief(value: unknown): string {
  const text = String(shown(value) ?? 'nothing').replace(/\s+/g, ' ')
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

function question(plans: readonly Doable[]): string {
  const added = plans.filter(({ kind }) => kind === 'new').length
  const parts = [
    ...(added === 0 ? [] : [`import ${added} new ${added === 1 ? 'template' : 'templates'}`]),
    ...(added === plans.length ? [] : [`update ${plans.length - added}`]),
  ]
  const text = parts.join(' and ')
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}?`
}

async function carryOut(
  run: Run,
  plan: Doable,
  { part, nestId }: { readonly part: string; readonly nestId: unknown },
): Promise<EggRow> {
  const client = await run.client()
  const { document } = plan.egg
  if (plan.kind === 'changed') {
    const { id: templateId } = plan.template
    const template = await client.call(api.updateTemplate, {
      params: { templateId },
      body: { ...plan.patch, egg: { ...document } },
    })
    return { ...rowOf(plan), status: 'updated', template: template.name, templateId: template.id }
  }
  const body = { ...document, ...(nestId === undefined ? {} : { nestId }) }
  // The contract takes an egg as it is; the daemon checks it.
  const template = await client.call(
    api.importEgg,
    { body: body as never },
    { idempotencyKey: run.idempotencyKey(part) },
  )
  return { ...rowOf(plan), status: 'imported', template: template.name, templateId: template.id }
}

function rowOf(plan: Plan): EggRow {
  const none = { format: null, uuid: null, template: null, templateId: null, changes: [], why: null }
  const { path, kind: status } = plan
  if (plan.kind === 'refused') return { ...none, path, status, name: plan.name, why: plan.why }
  const { origin, template } = plan.egg
  const row = { ...none, path, status, name: template.name, format: origin.format, uuid: origin.uuid }
  if (plan.kind === 'new') return row
  const { template: known, changes } = plan
  return { ...row, template: known.name, templateId: known.id, changes: changes.map(({ field }) => field) }
}
