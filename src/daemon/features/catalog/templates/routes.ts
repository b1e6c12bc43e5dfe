import {
  createTemplate,
  deleteTemplate,
  getTemplate,
  listTemplates,
  updateTemplate,
} from '../../../../shared/api/templates.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { changes } from '../../../access/audit.ts'
import { isForeignKeyViolation, uniqueViolation } from '../../../db/db.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { auditView, ensureUsable, patched, shownTo } from './definition.ts'
import type { TemplateDeps } from './deps.ts'
import { nestRoutes } from './nest-routes.ts'
import * as repo from './repo.ts'

const GONE = 'There is no template with this id'
const NO_NEST = 'There is no nest with this id'

/** The routes of templates and nests. */
export function templateRoutes(deps: TemplateDeps): Route[] {
  return [list(deps), get(deps), create(deps), update(deps), remove(deps), ...nestRoutes(deps)]
}

function list({ db }: TemplateDeps): Route {
  return route(listTemplates, async ({ query }, context) => {
    const { items, total } = await repo.listTemplates(db.read, query)
    return { items: items.map((template) => shownTo(callerOf(context), template)), total }
  })
}

function get({ db }: TemplateDeps): Route {
  return route(getTemplate, async ({ params }, context) => {
    const found = await repo.findTemplate(db.read, params.templateId)
    return shownTo(callerOf(context), found ?? context.fail('TEMPLATE_NOT_FOUND', GONE))
  })
}

function create({ db, bus, audit, clock }: TemplateDeps): Route {
  return route(createTemplate, ({ body: template }, context) => {
    ensureUsable(template)
    return db.write(async (tx) => {
      const id = newId('tpl', clock)
      const stamped = { id, createdAt: tx.now, updatedAt: tx.now }
      await repo.insertTemplate(tx.q, template, stamped).catch((error: unknown) => {
        if (isForeignKeyViolation(error)) return context.fail('NEST_NOT_FOUND', NO_NEST)
        if (uniqueViolation(error) === undefined) throw error
        return context.fail('TEMPLATE_NAME_TAKEN', `There is a template named ${template.name} already`)
      })
      await audit.record(tx, context.actor, {
        action: 'template.create',
        resource: 'template',
        resourceId: id,
        details: auditView(template),
      })
      await bus.append(tx, {
        type: 'template_created',
        data: { templateId: id, templateName: template.name, createdBy: context.caller?.userId ?? null },
      })
      return (await repo.findTemplate(tx.q, id)) ?? missing(id)
    })
  })
}

function update({ db, bus, audit }: TemplateDeps): Route {
  return route(updateTemplate, ({ params: { templateId }, body }, context) =>
    db.write(async (tx) => {
      const before = (await repo.findDefinition(tx.q, templateId)) ?? context.fail('TEMPLATE_NOT_FOUND', GONE)
      const template = patched(before, body)
      const changed = changes(before, template)
      if (changed === undefined) return (await repo.findTemplate(tx.q, templateId)) ?? missing(templateId)
      ensureUsable(template)
      await repo.updateTemplate(tx.q, templateId, { template, updatedAt: tx.now }).catch((error: unknown) => {
        if (isForeignKeyViolation(error)) return context.fail('NEST_NOT_FOUND', NO_NEST)
        if (uniqueViolation(error) === undefined) throw error
        return context.fail('TEMPLATE_NAME_TAKEN', `There is a template named ${template.name} already`)
      })
      await audit.record(tx, context.actor, {
        action: 'template.update',
        resource: 'template',
        resourceId: templateId,
        // A changed secret looks the same before and after: the names tell that it did change.
        details: { changed: Object.keys(changed), ...changes(auditView(before), auditView(template)) },
      })
      await bus.append(tx, {
        type: 'template_updated',
        data: { templateId, templateName: template.name, updatedBy: context.caller?.userId ?? null },
      })
      return (await repo.findTemplate(tx.q, templateId)) ?? missing(templateId)
    }),
  )
}

function remove({ db, bus, audit }: TemplateDeps): Route {
  return route(deleteTemplate, ({ params: { templateId } }, context) =>
    db.write(async (tx) => {
      const deleted = await repo.deleteTemplate(tx.q, templateId).catch((error: unknown) => {
        if (!isForeignKeyViolation(error)) throw error
        return context.fail('TEMPLATE_IN_USE', 'Servers are made from this template; delete them first')
      })
      const { name } = deleted ?? context.fail('TEMPLATE_NOT_FOUND', GONE)
      await audit.record(tx, context.actor, {
        action: 'template.delete',
        resource: 'template',
        resourceId: templateId,
        details: { name },
      })
      await bus.append(tx, {
        type: 'template_deleted',
        data: { templateId, templateName: name, deletedBy: context.caller?.userId ?? null },
      })
      return null
    }),
  )
}

function missing(id: string): never {
  throw new Error(`template ${id} is gone within the transaction that wrote it`)
}
