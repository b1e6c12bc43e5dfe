import type { NewTemplate } from '../../../../shared/api/template-fields.ts'
import { createTemplate } from '../../../../shared/api/templates.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { PANEL, perform, recordChange } from '../../../access/operation.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Db, Tx } from '../../../db/db.ts'
import { fingerprint, loadShipped, textsOf } from './catalog.ts'
import { auditView, definitionJson } from './definition.ts'
import type { TemplateDeps } from './deps.ts'
import { createNest } from './nest-operations.ts'
import { findNestIdByName } from './nest-rows.ts'
import { insertTemplateIfNew } from './rows.ts'

export { starterFolder } from './catalog.ts'

const NEST = { name: 'Starter', description: 'Templates that come with the panel', icon: null, author: 'panel' }

/** What templates that come with the program need to be stored. */
export interface ShippedDeps extends TemplateDeps {
  readonly settings: Settings
}

/** The templates of a folder that every installation is given. */
export async function loadStarters(folder: string): Promise<NewTemplate[]> {
  return (await loadShipped(folder)).map(({ template }) => template)
}

/**
 * Adds what {@link ensureStarters} adds of a folder. Its templates are parsed only when their files are not those that were looked at before: most starts
 * have nothing to add, and parsing would hold up whoever asks a daemon something that has just started.
 */
export async function addStarters(deps: ShippedDeps & { readonly db: Db }, folder: string): Promise<void> {
  const { db, settings } = deps
  const digest = fingerprint(JSON.stringify(await textsOf(folder)))
  if (settings.get('install.startersDigest') === digest) return
  const starters = await loadStarters(folder)
  await db.write(async (tx) => {
    await ensureStarters(tx, deps, starters)
    await settings.set(tx, 'install.startersDigest', digest)
  })
}

/**
 * Adds the nest "Starter" and the templates that this installation was never given, by name. Present ones stay as people edited
 * them, and those that were deleted stay away.
 */
export async function ensureStarters(tx: Tx, deps: ShippedDeps, starters: readonly NewTemplate[]): Promise<void> {
  const { clock, settings } = deps
  const given = await settings.read(tx, 'install.starters')
  const missing = starters.filter(({ name }) => !given.includes(name))
  if (missing.length === 0) return
  await settings.set(tx, 'install.starters', [...given, ...missing.map(({ name }) => name)])
  const nestId = await starterNest(tx, deps)
  for (const starter of missing) {
    const id = newId('tpl', clock)
    const template = { ...starter, nestId }
    if (!(await insertTemplateIfNew(tx.q, template, { id, createdAt: tx.now, updatedAt: tx.now }))) continue
    await noteInstalled(tx, deps, { templateId: id, template })
    const data = { templateId: id, templateName: template.name, createdBy: null }
    await recordChange(
      tx,
      { deps, principal: PANEL, endpoint: createTemplate },
      { audit: { resourceId: id, details: auditView(template) }, events: [{ type: 'template_created', data }] },
    )
  }
}

/** The nest of the templates that come with the program; it is made where there is none. */
export async function starterNest(tx: Tx, deps: TemplateDeps): Promise<NewTemplate['nestId']> {
  const input = { params: {}, query: undefined, body: NEST }
  const id =
    (await findNestIdByName(tx.q, NEST.name)) ?? (await perform(tx, createNest, { deps, principal: PANEL, input })).id
  return id as NewTemplate['nestId'] // that of a row
}

/** Writes down which template was made of which of the program's, and how it was then: an edit shows by that. */
export async function noteInstalled(
  tx: Tx,
  { settings }: Pick<ShippedDeps, 'settings'>,
  {
    templateId,
    template,
    shippedName = template.name,
  }: { templateId: string; template: NewTemplate; shippedName?: string },
): Promise<void> {
  const others = (await settings.read(tx, 'install.catalog')).filter(({ name }) => name !== shippedName)
  const digest = fingerprint(definitionJson(template))
  await settings.set(tx, 'install.catalog', [...others, { name: shippedName, templateId, digest }])
}
