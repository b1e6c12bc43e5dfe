import * as catalog from '../../../shared/api/template-catalog.ts'
import * as api from '../../../shared/api/templates.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, type View, view, wide } from '../../kit/output/view.ts'
import { call, deleteAction, subjectOf, viewAction } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import type { Run } from '../../kit/run.ts'
import { readEggDocument, readNewTemplate, readTemplatePatch } from './template-file.ts'

const VIEW = view<api.Template>([
  column('NAME', (row) => row.name),
  column('NEST', (row) => row.nest?.name),
  column('VERSION', (row) => row.version),
  column('RUNTIMES', (row) => row.runtimes.join(',')),
  column('SERVERS', (row) => row.serverCount),
  column('ID', (row) => row.id),
  wide('MEMORY', (row) => ({ mib: row.allocatedMemoryMb })),
  wide('CPU', (row) => row.allocatedCpuCores),
  wide('STARTUP', (row) => row.startup),
  wide('STOP', (row) => (row.stopCommand === '' ? row.sendSignalTo : row.stopCommand)),
  wide('EGG', (row) => row.origin?.format),
  wide('VARIABLES', (row) => row.variables.map(({ name }) => name).join(',')),
  wide('CREATED', (row) => ({ time: row.createdAt })),
])

const SUBJECT = { ref: 'template', param: 'templateId' } as const

export const listTemplates = listAction(api.listTemplates, VIEW)
export const viewTemplate = viewAction(api.getTemplate, SUBJECT, VIEW)

const CATALOG_VIEW: View<catalog.CatalogTemplate> = {
  id: (row) => row.name,
  name: (row) => row.name,
  columns: [
    column('NAME', (row) => row.name),
    column('TEMPLATE', (row) => row.title),
    column('VERSION', (row) => row.version),
    column('RUNTIMES', (row) => row.runtimes.join(',')),
    column('NEEDS', (row) => row.debianPackages.join(' ')),
    column('INSTALLED', installedText),
    wide('NEEDS ALSO', (row) => row.requires),
    wide('SUMMARY', (row) => row.summary),
  ],
}

/** The version that there is, and what is to be known about it. */
function installedText({ installed, updateAvailable }: catalog.CatalogTemplate): string | null {
  if (installed === null) return null
  const remarks = [...(installed.edited ? ['edited'] : []), ...(updateAvailable ? ['update available'] : [])]
  return remarks.length === 0 ? installed.version : `${installed.version} (${remarks.join(', ')})`
}

export const listCatalog: Action = async (run) => {
  await run.out.list(await call(run, catalog.listCatalog, { params: {} }), CATALOG_VIEW)
}

export const installTemplate: Action = async (run) => {
  const params = { catalogName: run.args.required('name') }
  const template = await call(run, catalog.installTemplate, { params, body: await fieldsOf(run) })
  await run.out.item(template, VIEW)
  if (run.out.machine) return
  run.notice(`template ${template.name}: ${template.outcome}`)
  const packages = template.features['debianPackages']
  if (Array.isArray(packages) && packages.length > 0) {
    run.notice(`its servers need on their node: apt-get install --no-install-recommends ${packages.join(' ')}`)
  }
}

/** A file may hold an egg: then it is imported. */
export const createTemplate: Action = async (run) => {
  const body = await fieldsOf(run, readNewTemplate)
  await showImported(run, await call(run, api.createTemplate, { params: {}, body }))
}

/** An egg replaces what it describes. */
export const editTemplate: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const body = await fieldsOf(run, readTemplatePatch)
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', `panel ${run.path.join(' ')} --help`)
  await showImported(run, await call(run, api.updateTemplate, { params: { templateId: id }, body }))
}

export const importEgg: Action = async (run) => {
  const document = await readEggDocument(run.args.required('file'), run.terminal.stdin)
  const body = { ...document, ...(await fieldsOf(run)) }
  await showImported(run, await call(run, api.importEgg, { params: {}, body }))
}

export const exportTemplate: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const query = await fieldsOf(run)
  await run.out.value(await call(run, api.exportTemplate, { params: { templateId: id }, query }))
}

export const deleteTemplate = deleteAction(api.deleteTemplate, SUBJECT, 'template')

/** The template, and for people what became of the egg that it was made of. */
async function showImported(run: Run, template: api.ImportedTemplate): Promise<void> {
  await run.out.item(template, VIEW)
  if (run.out.machine) return
  for (const { kind, field, message } of template.report?.notes ?? []) run.notice(`${kind}: ${field} ${message}`)
}
