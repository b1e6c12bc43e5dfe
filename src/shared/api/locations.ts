import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { LocationId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { OneLine } from '../kernel/setting-values.ts'
import { IsoTime } from '../kernel/time.ts'
import { Node } from './nodes.ts'

/** Where nodes stand. */
export const Location = z.object({
  id: LocationId,
  name: z.string(),
  description: z.string().nullable(),
  nodeCount: z.int(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type Location = z.infer<typeof Location>

const LocationBody = z.object({
  name: OneLine.trim().min(1).max(100),
  description: z.string().max(500).nullish(),
})

export const listLocations = defineEndpoint({
  id: 'locations.list',
  tag: 'Locations',
  summary: 'List locations by name',
  method: 'GET',
  path: '/api/locations',
  access: { panel: 'location.read' },
  query: pageQuery().extend({ search: z.string().max(200).optional() }),
  response: z.array(Location),
  paged: true,
  cached: true,
})

export const getLocation = defineEndpoint({
  id: 'locations.get',
  tag: 'Locations',
  summary: 'Show a location with its nodes',
  method: 'GET',
  path: '/api/locations/:locationId',
  access: { panel: 'location.read' },
  params: { locationId: LocationId },
  response: Location.extend({ nodes: z.array(Node) }),
  errors: ['LOCATION_NOT_FOUND'],
  cached: true,
})

export const createLocation = defineEndpoint({
  id: 'locations.create',
  tag: 'Locations',
  summary: 'Create a location',
  method: 'POST',
  path: '/api/locations',
  access: { panel: 'location.create' },
  body: LocationBody,
  response: Location,
  status: 201,
  errors: ['LOCATION_NAME_TAKEN'],
  audit: { action: 'location.create' },
})

export const updateLocation = defineEndpoint({
  id: 'locations.update',
  tag: 'Locations',
  summary: 'Edit a location',
  method: 'PUT',
  path: '/api/locations/:locationId',
  access: { panel: 'location.update' },
  params: { locationId: LocationId },
  body: LocationBody.partial(),
  response: Location,
  errors: ['LOCATION_NOT_FOUND', 'LOCATION_NAME_TAKEN'],
  audit: { action: 'location.update' },
})

export const deleteLocation = defineEndpoint({
  id: 'locations.delete',
  tag: 'Locations',
  summary: 'Delete a location that has neither nodes nor servers',
  method: 'DELETE',
  path: '/api/locations/:locationId',
  access: { panel: 'location.delete' },
  params: { locationId: LocationId },
  response: NoData,
  errors: ['LOCATION_NOT_FOUND', 'LOCATION_IN_USE'],
  audit: { action: 'location.delete' },
})
