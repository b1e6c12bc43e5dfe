import * as api from '../../../shared/api/templates.ts'
import { column, view, wide } from '../../kit/output/view.ts'
import { createAction, deleteAction, editAction, viewAction } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'

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
  wide('VARIABLES', (row) => row.variables.map(({ name }) => name).join(',')),
  wide('CREATED', (row) => ({ time: row.createdAt })),
])

const SUBJECT = { ref: 'template', param: 'templateId' } as const

export const listTemplates = listAction(api.listTemplates, VIEW)
export const viewTemplate = viewAction(api.getTemplate, SUBJECT, VIEW)
export const createTemplate = createAction(api.createTemplate, VIEW)
export const editTemplate = editAction(api.updateTemplate, SUBJECT, VIEW)
export const deleteTemplate = deleteAction(api.deleteTemplate, SUBJECT, 'template')
