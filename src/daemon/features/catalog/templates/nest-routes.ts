import { getNest, listNests } from '../../../../shared/api/nests.ts'
import { operate } from '../../../http/operate.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { shownTo } from './definition.ts'
import type { TemplateDeps } from './deps.ts'
import * as operations from './nest-operations.ts'
import * as rows from './nest-rows.ts'
import { templatesOfNest } from './rows.ts'

/** The routes of nests. */
export function nestRoutes(deps: TemplateDeps): Route[] {
  return [
    list(deps),
    get(deps),
    operate(operations.createNest, deps),
    operate(operations.updateNest, deps),
    operate(operations.deleteNest, deps),
  ]
}

function list({ db }: TemplateDeps): Route {
  return route(listNests, ({ query }) => rows.listNests(db.read, query))
}

function get({ db }: TemplateDeps): Route {
  return route(getNest, async ({ params }, context) => {
    const nest = (await rows.findNest(db.read, params.nestId)) ?? context.fail('NEST_NOT_FOUND', operations.GONE)
    const templates = await templatesOfNest(db.read, nest.id)
    return { ...nest, templates: templates.map((template) => shownTo(callerOf(context), template)) }
  })
}
