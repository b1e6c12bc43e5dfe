import * as api from '../../../shared/api/nests.ts'
import { column, view, wide } from '../../kit/output/view.ts'
import { createAction, deleteAction, editAction, viewAction } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'

const VIEW = view<api.Nest>([
  column('NAME', (row) => row.name),
  column('TEMPLATES', (row) => row.templateCount),
  column('AUTHOR', (row) => row.author),
  column('ID', (row) => row.id),
  wide('DESCRIPTION', (row) => row.description),
  wide('CREATED', (row) => ({ time: row.createdAt })),
])

const SUBJECT = { ref: 'nest', param: 'nestId' } as const

export const listNests = listAction(api.listNests, VIEW)
export const viewNest = viewAction(api.getNest, SUBJECT, VIEW)
export const createNest = createAction(api.createNest, VIEW)
export const editNest = editAction(api.updateNest, SUBJECT, VIEW)
export const deleteNest = deleteAction(api.deleteNest, SUBJECT, 'nest')
