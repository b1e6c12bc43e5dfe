import {
  createLocation,
  deleteLocation,
  getLocation,
  listLocations,
  updateLocation,
} from '../../../../shared/api/locations.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { type Audit, changes } from '../../../access/audit.ts'
import type { Bus } from '../../../core/bus.ts'
import { type Db, isForeignKeyViolation, uniqueViolation } from '../../../db/db.ts'
import { type Route, route } from '../../../http/route.ts'
import { nodesOfLocation } from '../nodes/repo.ts'
import { nodeView } from '../nodes/view.ts'
import * as repo from './repo.ts'

export interface LocationDeps {
  readonly db: Db
  readonly bus: Bus
  readonly audit: Audit
  readonly clock: Clock
  /** Whether the node's agent is connected now. */
  readonly isOnline: (nodeId: string) => boolean
}

const GONE = 'There is no location with this id'

/** The routes of locations. */
export function locationRoutes(deps: LocationDeps): Route[] {
  return [list(deps), get(deps), create(deps), update(deps), remove(deps)]
}

function list({ db }: LocationDeps): Route {
  return route(listLocations, ({ query }) => repo.listLocations(db.read, query))
}

function get({ db, clock, isOnline }: LocationDeps): Route {
  return route(getLocation, async ({ params }, context) => {
    const location = (await repo.findLocation(db.read, params.locationId)) ?? context.fail('LOCATION_NOT_FOUND', GONE)
    const nodes = await nodesOfLocation(db.read, location.id)
    return { ...location, nodes: nodes.map((node) => nodeView(node, { clock, isOnline })) }
  })
}

function create({ db, bus, audit, clock }: LocationDeps): Route {
  return route(createLocation, ({ body }, context) =>
    db.write(async (tx) => {
      const id = newId('loc', clock)
      const fields = { name: body.name, description: body.description ?? null }
      await repo
        .insertLocation(tx.q, { id, ...fields, createdAt: tx.now, updatedAt: tx.now })
        .catch((error: unknown) => {
          if (uniqueViolation(error) === undefined) throw error
          return context.fail('LOCATION_NAME_TAKEN', `There is a location named ${body.name} already`)
        })
      await audit.record(tx, context.actor, {
        action: 'location.create',
        resource: 'location',
        resourceId: id,
        details: fields,
      })
      await bus.append(tx, {
        type: 'location_created',
        data: { locationId: id, locationName: body.name, createdBy: context.caller?.userId ?? null },
      })
      return (await repo.findLocation(tx.q, id)) ?? missing(id)
    }),
  )
}

function update({ db, bus, audit }: LocationDeps): Route {
  return route(updateLocation, ({ params: { locationId }, body }, context) =>
    db.write(async (tx) => {
      const before = (await repo.findLocation(tx.q, locationId)) ?? context.fail('LOCATION_NOT_FOUND', GONE)
      const fields = {
        name: body.name ?? before.name,
        description: body.description === undefined ? before.description : body.description,
      }
      const details = changes(before, fields)
      if (details === undefined) return before
      await repo.updateLocation(tx.q, locationId, { ...fields, updatedAt: tx.now }).catch((error: unknown) => {
        if (uniqueViolation(error) === undefined) throw error
        return context.fail('LOCATION_NAME_TAKEN', `There is a location named ${fields.name} already`)
      })
      await audit.record(tx, context.actor, {
        action: 'location.update',
        resource: 'location',
        resourceId: locationId,
        details,
      })
      await bus.append(tx, {
        type: 'location_updated',
        data: { locationId, locationName: fields.name, updatedBy: context.caller?.userId ?? null },
      })
      return (await repo.findLocation(tx.q, locationId)) ?? missing(locationId)
    }),
  )
}

function remove({ db, bus, audit }: LocationDeps): Route {
  return route(deleteLocation, ({ params: { locationId } }, context) =>
    db.write(async (tx) => {
      const deleted = await repo.deleteLocation(tx.q, locationId).catch((error: unknown) => {
        if (!isForeignKeyViolation(error)) throw error
        return context.fail('LOCATION_IN_USE', 'The location has nodes or servers; move or delete them first')
      })
      const { name } = deleted ?? context.fail('LOCATION_NOT_FOUND', GONE)
      await audit.record(tx, context.actor, {
        action: 'location.delete',
        resource: 'location',
        resourceId: locationId,
        details: { name },
      })
      await bus.append(tx, {
        type: 'location_deleted',
        data: { locationId, locationName: name, deletedBy: context.caller?.userId ?? null },
      })
      return null
    }),
  )
}

function missing(id: string): never {
  throw new Error(`location ${id} is gone within the transaction that wrote it`)
}
