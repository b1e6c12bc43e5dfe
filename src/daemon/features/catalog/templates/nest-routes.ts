import { createNest, deleteNest, getNest, listNests, updateNest } from '../../../../shared/api/templates.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { changes } from '../../../access/audit.ts'
import { uniqueViolation } from '../../../db/db.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { shownTo } from './definition.ts'
import type { TemplateDeps } from './deps.ts'
import * as repo from './nest-repo.ts'
import { templatesOfNest } from './repo.ts'

const GONE = 'There is no nest with this id'

/** The routes of nests. */
export function nestRoutes(deps: TemplateDeps): Route[] {
  return [list(deps), get(deps), create(deps), update(deps), remove(deps)]
}

function list({ db }: TemplateDeps): Route {
  return route(listNests, ({ query }) => repo.listNests(db.read, query))
}

function get({ db }: TemplateDeps): Route {
  return route(getNest, async ({ params }, context) => {
    const nest = (await repo.findNest(db.read, params.nestId)) ?? context.fail('NEST_NOT_FOUND', GONE)
    const templates = await templatesOfNest(db.read, nest.id)
    return { ...nest, templates: templates.map((template) => shownTo(callerOf(context), template)) }
  })
}

function create({ db, bus, audit, clock }: TemplateDeps): Route {
  return route(createNest, ({ body }, context) =>
    db.write(async (tx) => {
      const id = newId('nest', clock)
      const fields = {
        name: body.name,
        description: body.description ?? null,
        icon: body.icon ?? null,
        author: body.author ?? null,
      }
      await repo.insertNest(tx.q, { id, ...fields, createdAt: tx.now, updatedAt: tx.now }).catch((error: unknown) => {
        if (uniqueViolation(error) === undefined) throw error
        return context.fail('NEST_NAME_TAKEN', `There is a nest named ${fields.name} already`)
      })
      await audit.record(tx, context.actor, {
        action: 'nest.create',
        resource: 'nest',
        resourceId: id,
        details: fields,
      })
      await bus.append(tx, {
        type: 'nest_created',
        data: { nestId: id, nestName: fields.name, createdBy: context.caller?.userId ?? null },
      })
      return (await repo.findNest(tx.q, id)) ?? missing(id)
    }),
  )
}

function update({ db, bus, audit }: TemplateDeps): Route {
  return route(updateNest, ({ params: { nestId }, body }, context) =>
    db.write(async (tx) => {
      const before = (await repo.findNest(tx.q, nestId)) ?? context.fail('NEST_NOT_FOUND', GONE)
      const fields = {
        name: body.name ?? before.name,
        description: body.description === undefined ? before.description : body.description,
        icon: body.icon === undefined ? before.icon : body.icon,
        author: body.author === undefined ? before.author : body.author,
      }
      const details = changes(before, fields)
      if (details === undefined) return before
      await repo.updateNest(tx.q, nestId, { ...fields, updatedAt: tx.now }).catch((error: unknown) => {
        if (uniqueViolation(error) === undefined) throw error
        return context.fail('NEST_NAME_TAKEN', `There is a nest named ${fields.name} already`)
      })
      await audit.record(tx, context.actor, { action: 'nest.update', resource: 'nest', resourceId: nestId, details })
      await bus.append(tx, {
        type: 'nest_updated',
        data: { nestId, nestName: fields.name, updatedBy: context.caller?.userId ?? null },
      })
      return (await repo.findNest(tx.q, nestId)) ?? missing(nestId)
    }),
  )
}

function remove({ db, bus, audit }: TemplateDeps): Route {
  return route(deleteNest, ({ params: { nestId } }, context) =>
    db.write(async (tx) => {
      const { name } = (await repo.deleteNest(tx.q, nestId)) ?? context.fail('NEST_NOT_FOUND', GONE)
      await audit.record(tx, context.actor, {
        action: 'nest.delete',
        resource: 'nest',
        resourceId: nestId,
        details: { name },
      })
      await bus.append(tx, {
        type: 'nest_deleted',
        data: { nestId, nestName: name, deletedBy: context.caller?.userId ?? null },
      })
      return null
    }),
  )
}

function missing(id: string): never {
  throw new Error(`nest ${id} is gone within the transaction that wrote it`)
}
