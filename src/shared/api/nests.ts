import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { NestId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { OneLine } from '../kernel/setting-values.ts'
import { IsoTime } from '../kernel/time.ts'
import { Template } from './templates.ts'

/** A group of templates, such as one game. */
export const Nest = z.object({
  id: NestId,
  name: z.string(),
  description: z.string().nullable(),
  icon: z.string().nullable(),
  author: z.string().nullable(),
  templateCount: z.int(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type Nest = z.infer<typeof Nest>

const NestBody = z.object({
  name: OneLine.trim().min(1).max(100),
  description: z.string().max(500).nullish(),
  icon: z.string().max(500).nullish(),
  author: z.string().max(200).nullish(),
})

export const listNests = defineEndpoint({
  id: 'nests.list',
  tag: 'Nests',
  summary: 'List nests by name',
  method: 'GET',
  path: '/api/nests',
  access: { panel: 'template.read' },
  query: pageQuery().extend({ search: z.string().max(200).optional() }),
  response: z.array(Nest),
  paged: true,
})

export const getNest = defineEndpoint({
  id: 'nests.get',
  tag: 'Nests',
  summary: 'Show a nest with its templates',
  method: 'GET',
  path: '/api/nests/:nestId',
  access: { panel: 'template.read' },
  params: { nestId: NestId },
  response: Nest.extend({ templates: z.array(Template) }),
  errors: ['NEST_NOT_FOUND'],
})

export const createNest = defineEndpoint({
  id: 'nests.create',
  tag: 'Nests',
  summary: 'Create a nest',
  method: 'POST',
  path: '/api/nests',
  access: { panel: 'template.create' },
  body: NestBody,
  response: Nest,
  status: 201,
  errors: ['NEST_NAME_TAKEN'],
  audit: { action: 'nest.create' },
})

export const updateNest = defineEndpoint({
  id: 'nests.update',
  tag: 'Nests',
  summary: 'Edit a nest',
  method: 'PUT',
  path: '/api/nests/:nestId',
  access: { panel: 'template.update' },
  params: { nestId: NestId },
  body: NestBody.partial(),
  response: Nest,
  errors: ['NEST_NOT_FOUND', 'NEST_NAME_TAKEN'],
  audit: { action: 'nest.update' },
})

export const deleteNest = defineEndpoint({
  id: 'nests.delete',
  tag: 'Nests',
  summary: 'Delete a nest; its templates stay',
  method: 'DELETE',
  path: '/api/nests/:nestId',
  access: { panel: 'template.delete' },
  params: { nestId: NestId },
  response: NoData,
  errors: ['NEST_NOT_FOUND'],
  audit: { action: 'nest.delete' },
})
