import * as api from '../../../../shared/api/locations.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { changes } from '../../../access/audit.ts'
import { type OperationDeps, operationsOver } from '../../../access/operation.ts'
import { isForeignKeyViolation, uniqueViolation } from '../../../db/db.ts'
import * as rows from './rows.ts'

/** What the operations of locations need. */
export interface LocationDeps extends OperationDeps {
  readonly clock: Clock
}

export const GONE = 'There is no location with this id'

const operation = operationsOver<LocationDeps>()

export const createLocation = operation(api.createLocation, async ({ tx, deps, userId, fail }, { body }) => {
  const id = newId('loc', deps.clock)
  const fields = { name: body.name, description: body.description ?? null }
  await rows.insertLocation(tx.q, { id, ...fields, createdAt: tx.now, updatedAt: tx.now }).catch((error: unknown) => {
    if (uniqueViolation(error) === undefined) throw error
    return fail('LOCATION_NAME_TAKEN', `There is a location named ${body.name} already`)
  })
  const data = { locationId: id, locationName: body.name, createdBy: userId }
  return {
    answer: (await rows.findLocation(tx.q, id)) ?? missing(id),
    audit: { resourceId: id, details: fields },
    events: [{ type: 'location_created', data }],
  }
})

export const updateLocation = operation(
  api.updateLocation,
  async ({ tx, userId, fail }, { params: { locationId }, body }) => {
    const before = (await rows.findLocation(tx.q, locationId)) ?? fail('LOCATION_NOT_FOUND', GONE)
    const fields = {
      name: body.name ?? before.name,
      description: body.description === undefined ? before.description : body.description,
    }
    const details = changes(before, fields)
    if (details === undefined) return { answer: before }
    await rows.updateLocation(tx.q, locationId, { ...fields, updatedAt: tx.now }).catch((error: unknown) => {
      if (uniqueViolation(error) === undefined) throw error
      return fail('LOCATION_NAME_TAKEN', `There is a location named ${fields.name} already`)
    })
    return {
      answer: (await rows.findLocation(tx.q, locationId)) ?? missing(locationId),
      audit: { resourceId: locationId, details },
      events: [{ type: 'location_updated', data: { locationId, locationName: fields.name, updatedBy: userId } }],
    }
  },
)

export const deleteLocation = operation(
  api.deleteLocation,
  async ({ tx, userId, fail }, { params: { locationId } }) => {
    const deleted = await rows.deleteLocation(tx.q, locationId).catch((error: unknown) => {
      if (!isForeignKeyViolation(error)) throw error
      return fail('LOCATION_IN_USE', 'The location has nodes or servers; move or delete them first')
    })
    const { name } = deleted ?? fail('LOCATION_NOT_FOUND', GONE)
    return {
      answer: null,
      audit: { resourceId: locationId, details: { name } },
      events: [{ type: 'location_deleted', data: { locationId, locationName: name, deletedBy: userId } }],
    }
  },
)

function missing(id: string): never {
  throw new Error(`location ${id} is gone within the transaction that wrote it`)
}
