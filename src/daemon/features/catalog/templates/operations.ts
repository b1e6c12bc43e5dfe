import * as api from '../../../../shared/api/templates.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { changes } from '../../../access/audit.ts'
import { operationsOver } from '../../../access/operation.ts'
import { isForeignKeyViolation, uniqueViolation } from '../../../db/db.ts'
import { auditView, ensureUsable, patched } from './definition.ts'
import type { TemplateDeps } from './deps.ts'
import * as rows from './rows.ts'

export const GONE = 'There is no template with this id'
const NO_NEST = 'There is no nest with this id'

const operation = operationsOver<TemplateDeps>()

export const createTemplate = operation(api.createTemplate, async ({ tx, deps, userId, fail }, { body: template }) => {
  const { clock } = deps
  ensureUsable(template)

  const id = newId('tpl', clock)
  const stamped = { id, createdAt: tx.now, updatedAt: tx.now }
  await rows.insertTemplate(tx.q, template, stamped).catch((error: unknown) => {
    if (isForeignKeyViolation(error)) return fail('NEST_NOT_FOUND', NO_NEST)
    if (uniqueViolation(error) === undefined) throw error
    return fail('TEMPLATE_NAME_TAKEN', `There is a template named ${template.name} already`)
  })

  return {
    answer: (await rows.findTemplate(tx.q, id)) ?? missing(id),
    audit: {
      resourceId: id,
      details: auditView(template),
    },
    events: [
      {
        type: 'template_created',
        data: { templateId: id, templateName: template.name, createdBy: userId },
      },
    ],
  }
})

export const updateTemplate = operation(
  api.updateTemplate,
  async ({ tx, userId, fail }, { params: { templateId }, body }) => {
    const before = (await rows.findDefinition(tx.q, templateId)) ?? fail('TEMPLATE_NOT_FOUND', GONE)
    const template = patched(before, body)
    const changed = changes(before, template)
    if (changed === undefined) return { answer: (await rows.findTemplate(tx.q, templateId)) ?? missing(templateId) }
    ensureUsable(template)
    await rows.updateTemplate(tx.q, templateId, { template, updatedAt: tx.now }).catch((error: unknown) => {
      if (isForeignKeyViolation(error)) return fail('NEST_NOT_FOUND', NO_NEST)
      if (uniqueViolation(error) === undefined) throw error
      return fail('TEMPLATE_NAME_TAKEN', `There is a template named ${template.name} already`)
    })

    return {
      answer: (await rows.findTemplate(tx.q, templateId)) ?? missing(templateId),
      audit: {
        resourceId: templateId,
        // A changed secret looks the same before and after: the names tell that it did change.
        details: { changed: Object.keys(changed), ...changes(auditView(before), auditView(template)) },
      },
      events: [
        {
          type: 'template_updated',
          data: { templateId, templateName: template.name, updatedBy: userId },
        },
      ],
    }
  },
)

export const deleteTemplate = operation(
  api.deleteTemplate,
  async ({ tx, userId, fail }, { params: { templateId } }) => {
    const deleted = await rows.deleteTemplate(tx.q, templateId).catch((error: unknown) => {
      if (!isForeignKeyViolation(error)) throw error
      return fail('TEMPLATE_IN_USE', 'Servers are made from this template; delete them first')
    })
    const { name } = deleted ?? fail('TEMPLATE_NOT_FOUND', GONE)

    return {
      answer: null,
      audit: {
        resourceId: templateId,
        details: { name },
      },
      events: [
        {
          type: 'template_deleted',
          data: { templateId, templateName: name, deletedBy: userId },
        },
      ],
    }
  },
)

function missing(id: string): never {
  throw new Error(`template ${id} is gone within the transaction that wrote it`)
}
