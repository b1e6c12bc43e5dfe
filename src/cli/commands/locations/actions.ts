import * as api from '../../../shared/api/locations.ts'
import { column, view, wide } from '../../kit/output/view.ts'
import { createAction, deleteAction, editAction, viewAction } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'

const VIEW = view<api.Location>([
  column('NAME', (row) => row.name),
  column('NODES', (row) => row.nodeCount),
  column('DESCRIPTION', (row) => row.description),
  column('ID', (row) => row.id),
  wide('CREATED', (row) => ({ time: row.createdAt })),
])

const SUBJECT = { ref: 'location', param: 'locationId' } as const

export const listLocations = listAction(api.listLocations, VIEW)
export const viewLocation = viewAction(api.getLocation, SUBJECT, VIEW)
export const createLocation = createAction(api.createLocation, VIEW)
export const editLocation = editAction(api.updateLocation, SUBJECT, VIEW)
export const deleteLocation = deleteAction(api.deleteLocation, SUBJECT, 'location')
