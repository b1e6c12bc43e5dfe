import * as api from '../../../../shared/api/template-catalog.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import { changes } from '../../../access/audit.ts'
import { operationsOver } from '../../../access/operation.ts'
import type { SettingValue } from '../../../core/settings.ts'
import type { Queries } from '../../../db/db.ts'
import { type Catalog, fingerprint, isLater, type ShippedTemplate } from './catalog.ts'
import { auditView } from './definition.ts'
import * as rows from './rows.ts'
import { noteInstalled, type ShippedDeps, starterNest } from './starter.ts'

/** What the catalogue's routes and operation need. */
export interface CatalogDeps extends ShippedDeps {
  readonly catalog: Catalog
}

type Installed = SettingValue<'install.catalog'>

/** The catalogue as answers show it, with what this installation has of it. */
export async function listCatalog(q: Queries, { catalog, settings }: CatalogDeps): Promise<api.CatalogTemplate[]> {
  const noted = settings.get('install.catalog')
  const shipped = [...(await catalog.all()).values()]
  return Promise.all(
    shipped.map(async ({ slug, template, debianPackages, requires }) => {
      const found = await findInstalled(q, template.name, noted)
      const installed =
        found === undefined
          ? null
          : { templateId: found.id, name: found.template.name, version: found.template.version, edited: found.edited }
      return {
        name: slug,
        title: template.name,
        summary: template.description,
        version: template.version,
        runtimes: template.runtimes,
        debianPackages: [...debianPackages],
        requires,
        installed,
        updateAvailable: installed !== null && isLater(template.version, installed.version),
      }
    }),
  )
}

export const installTemplate = operationsOver<CatalogDeps>()(
  api.installTemplate,
  async ({ tx, deps, userId, holder, fail }, { params: { catalogName }, body: { force } }) => {
    const shipped =
      (await deps.catalog.all()).get(catalogName) ??
      fail('TEMPLATE_NOT_FOUND', `The catalogue has no template ${catalogName}; panel templates catalog lists all`)
    const found = await findInstalled(tx.q, shipped.template.name, await deps.settings.read(tx, 'install.catalog'))
    if (found === undefined) return await create()
    const { id, edited, template: before } = found
    // What people have chosen for it stays: how it is called, and where it is.
    const template = { ...shipped.template, name: before.name, nestId: before.nestId }
    const changed = changes(before, template)
    if (changed === undefined) return { answer: { ...(await answerOf(tx.q, id)), outcome: 'unchanged' as const } }
    if (!grants(holder.permissions, 'template.update', id)) {
      return fail('PERMISSION_DENIED', `There is a template ${before.name} already, and you may not edit templates`)
    }
    if (edited && !force) {
      const message = `The template ${before.name} was edited, or was not made by the catalogue; with force it is overwritten`
      return fail('TEMPLATE_EDITED', message, { templateId: id })
    }
    await rows.updateTemplate(tx.q, id, { template, updatedAt: tx.now })
    await rows.keepEgg(tx.q, id, null)
    await noteInstalled(tx, deps, { templateId: id, template, shippedName: shipped.template.name })
    return {
      answer: { ...(await answerOf(tx.q, id)), outcome: 'updated' as const },
      audit: {
        resourceId: id,
        details: {
          catalog: shipped.slug,
          changed: Object.keys(changed),
          ...changes(auditView(before), auditView(template)),
        },
      },
      events: [{ type: 'template_updated', data: { templateId: id, templateName: template.name, updatedBy: userId } }],
    }

    async function create() {
      const made = newId('tpl', deps.clock)
      const nestId = await starterNest(tx, deps)
      const fresh = { ...(shipped as ShippedTemplate).template, nestId }
      await rows.insertTemplate(tx.q, fresh, { id: made, createdAt: tx.now, updatedAt: tx.now })
      await noteInstalled(tx, deps, { templateId: made, template: fresh })
      return {
        answer: { ...(await answerOf(tx.q, made)), outcome: 'created' as const },
        audit: { resourceId: made, details: { catalog: shipped.slug, ...auditView(fresh) } },
        events: [
          {
            type: 'template_created' as const,
            data: { templateId: made, templateName: fresh.name, createdBy: userId },
          },
        ],
      }
    }
  },
)

/** The template that was made of one of the program's, or that has its name. What nobody noted may be a person's own work. */
async function findInstalled(q: Queries, shippedName: string, noted: Installed) {
  const note = noted.find(({ name }) => name === shippedName)
  const row =
    (note === undefined ? undefined : await rows.findStored(q, { id: note.templateId })) ??
    (await rows.findStored(q, { name: shippedName }))
  if (row === undefined) return undefined
  return { ...row, edited: note?.templateId !== row.id || fingerprint(row.definition) !== note.digest }
}

async function answerOf(q: Queries, id: string) {
  const found = await rows.findTemplate(q, id)
  if (found === undefined) throw new Error(`template ${id} is gone within the transaction that wrote it`)
  return found
}
