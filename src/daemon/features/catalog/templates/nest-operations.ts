import * as api from '../../../../shared/api/nests.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { changes } from '../../../access/audit.ts'
import { operationsOver } from '../../../access/operation.ts'
import { uniqueViolation } from '../../../db/db.ts'
import type { TemplateDeps } from './deps.ts'
import * as rows from './nest-rows.ts'

export const GONE = 'There is no nest with this id'

const operation = operationsOver<TemplateDeps>()

export const createNest = operation(api.createNest, async ({ tx, deps, userId, fail }, { body }) => {
  const { clock } = deps
  const id = newId('nest', clock)
  const fields = {
    name: body.name,
    description: body.description ?? null,
    icon: body.icon ?? null,
    author: body.author ?? null,
  }
  await rows.insertNest(tx.q, { id, ...fields, createdAt: tx.now, updatedAt: tx.now }).catch((error: unknown) => {
    if (uniqueViolation(error) === undefined) throw error
    return fail('NEST_NAME_TAKEN', `There is a nest named ${fields.name} already`)
  })

  return {
    answer: (await rows.findNest(tx.q, id)) ?? missing(id),
    audit: {
      resourceId: id,
      details: fields,
    },
    events: [
      {
        type: 'nest_created',
        data: { nestId: id, nestName: fields.name, createdBy: userId },
      },
    ],
  }
})

export const updateNest = operation(api.updateNest, async ({ tx, userId, fail }, { params: { nestId }, body }) => {
  const before = (await rows.findNest(tx.q, nestId)) ?? fail('NEST_NOT_FOUND', GONE)
  const fields = {
    name: body.name ?? before.name,
    description: body.description === undefined ? before.description : body.description,
    icon: body.icon === undefined ? before.icon : body.icon,
    author: body.author === undefined ? before.author : body.author,
  }
  const details = changes(before, fields)
  if (details === undefined) return { answer: before }
  await rows.updateNest(tx.q, nestId, { ...fields, updatedAt: tx.now }).catch((error: unknown) => {
    if (uniqueViolation(error) === undefined) throw error
    return fail('NEST_NAME_TAKEN', `There is a nest named ${fields.name} already`)
  })

  return {
    answer: (await rows.findNest(tx.q, nestId)) ?? missing(nestId),
    audit: { resourceId: nestId, details },
    events: [
      {
        type: 'nest_updated',
        data: { nestId, nestName: fields.name, updatedBy: userId },
      },
    ],
  }
})

export const deleteNest = operation(api.deleteNest, async ({ tx, userId, fail }, { params: { nestId } }) => {
  const { name } = (await rows.deleteNest(tx.q, nestId)) ?? fail('NEST_NOT_FOUND', GONE)

  return {
    answer: null,
    audit: {
      resourceId: nestId,
      details: { name },
    },
    events: [
      {
        type: 'nest_deleted',
        data: { nestId, nestName: name, deletedBy: userId },
      },
    ],
  }
})

function missing(id: string): never {
  throw new Error(`nest ${id} is gone within the transaction that wrote it`)
}
