import type { NewTemplate } from '../../../../shared/api/template-fields.ts'
import * as api from '../../../../shared/api/templates.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { EggProblem, type ImportedEgg, importEgg as readEgg } from '../../../../shared/templates/egg-import.ts'
import { changes } from '../../../access/audit.ts'
import { operationsOver, type WorkOver } from '../../../access/operation.ts'
import { isForeignKeyViolation, type Queries, uniqueViolation } from '../../../db/db.ts'
import { auditView, ensureUsable, patched } from './definition.ts'
import type { TemplateDeps } from './deps.ts'
import { eggRefusal } from './egg-bodies.ts'
import * as rows from './rows.ts'

export const GONE = 'There is no template with this id'
const NO_NEST = 'There is no nest with this id'

const operation = operationsOver<TemplateDeps>()

export const createTemplate = operation(api.createTemplate, async (work, { body: { egg, ...template } }) => {
  const imported = egg === null ? null : read(egg, 'body.egg')
  ensureUsable(template)
  const { fail } = work
  const { answer, ...done } = await addTemplate(work, { template, imported }, fail)
  return { answer: { ...answer, ...(imported === null ? {} : { report: imported.report }) }, ...done }
})

export const importEgg = operation(api.importEgg, async (work, { body: { nestId, ...egg } }) => {
  const imported = read(egg, 'body')
  const template = { ...imported.template, nestId: nestId ?? null }
  const { answer, ...done } = await addTemplate(work, { template, imported }, work.fail)
  return { answer: { ...answer, report: imported.report }, ...done }
})

export const updateTemplate = operation(
  api.updateTemplate,
  async ({ tx, userId, fail }, { params: { templateId }, body: { egg, ...body } }) => {
    const before = (await rows.findDefinition(tx.q, templateId)) ?? fail('TEMPLATE_NOT_FOUND', GONE)
    const imported = egg === undefined || egg === null ? egg : read(egg, 'body.egg')
    const report = imported === undefined || imported === null ? {} : { report: imported.report }
    if (imported !== undefined) await rows.keepEgg(tx.q, templateId, keptOf(imported))
    const template = patched(before, body)
    const changed = changes(before, template)
    if (changed === undefined) {
      const answer = (await rows.findTemplate(tx.q, templateId)) ?? missing(templateId)
      return { answer: { ...answer, ...report } }
    }
    ensureUsable(template)
    await refuseLostLines(tx.q, templateId, template)
    await rows.updateTemplate(tx.q, templateId, { template, updatedAt: tx.now }).catch((error: unknown) => {
      if (isForeignKeyViolation(error)) return fail('NEST_NOT_FOUND', NO_NEST)
      if (uniqueViolation(error) === undefined) throw error
      return fail('TEMPLATE_NAME_TAKEN', `There is a template named ${template.name} already`)
    })

    return {
      answer: { ...((await rows.findTemplate(tx.q, templateId)) ?? missing(templateId)), ...report },
      audit: {
        resourceId: templateId,
        // A changed secret looks the same before and after: the names show that it did change.
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

/** Adds a template with the egg that it was made of. */
async function addTemplate(
  { tx, deps: { clock }, userId }: Pick<WorkOver<TemplateDeps>, 'tx' | 'deps' | 'userId'>,
  { template, imported }: { template: NewTemplate; imported: ImportedEgg | null },
  fail: (code: 'NEST_NOT_FOUND' | 'TEMPLATE_NAME_TAKEN', message: string) => never,
) {
  const id = newId('tpl', clock)
  const stamped = { id, createdAt: tx.now, updatedAt: tx.now }
  await rows.insertTemplate(tx.q, template, stamped).catch((error: unknown) => {
    if (isForeignKeyViolation(error)) return fail('NEST_NOT_FOUND', NO_NEST)
    if (uniqueViolation(error) === undefined) throw error
    return fail('TEMPLATE_NAME_TAKEN', `There is a template named ${template.name} already`)
  })
  if (imported !== null) await rows.keepEgg(tx.q, id, keptOf(imported))
  const data = { templateId: id, templateName: template.name, createdBy: userId }
  return {
    answer: (await rows.findTemplate(tx.q, id)) ?? missing(id),
    audit: { resourceId: id, details: auditView(template) },
    events: [{ type: 'template_created' as const, data }],
  }
}

function keptOf(imported: ImportedEgg | null): rows.KeptEgg | null {
  return imported === null ? null : { ...imported.origin, document: imported.document }
}

/** A server must not find itself with another startup line than the one that was chosen for it. */
async function refuseLostLines(q: Queries, templateId: string, { startupCommands }: NewTemplate): Promise<void> {
  const kept = startupCommands.map(({ name }) => name)
  const [server] = await rows.serversByLostLine(q, templateId, kept)
  if (server === undefined) return
  throw fieldError(
    'body.startupCommands',
    `must keep ${server.startupName}, by which the server ${server.name} is started; give it another line first, or pin it`,
  )
}

/** The egg of a request; what is wrong with it is named below `at`. */
function read(egg: unknown, at: string): ImportedEgg {
  try {
    return readEgg(egg)
  } catch (error) {
    throw error instanceof EggProblem ? eggRefusal(error, at) : error
  }
}

function missing(id: string): never {
  throw new Error(`template ${id} is gone within the transaction that wrote it`)
}
