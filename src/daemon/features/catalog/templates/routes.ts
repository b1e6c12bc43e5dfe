import { getTemplate, listTemplates } from '../../../../shared/api/templates.ts'
import { operate } from '../../../http/operate.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { shownTo } from './definition.ts'
import type { TemplateDeps } from './deps.ts'
import { nestRoutes } from './nest-routes.ts'
import * as operations from './operations.ts'
import * as rows from './rows.ts'

/** The routes of templates and nests. */
export function templateRoutes(deps: TemplateDeps): Route[] {
  return [
    list(deps),
    get(deps),
    operate(operations.createTemplate, deps),
    operate(operations.updateTemplate, deps),
    operate(operations.deleteTemplate, deps),
    ...nestRoutes(deps),
  ]
}

function list({ db }: TemplateDeps): Route {
  return route(listTemplates, async ({ query }, context) => {
    const { items, total } = await rows.listTemplates(db.read, query)
    return { items: items.map((template) => shownTo(callerOf(context), template)), total }
  })
}

function get({ db }: TemplateDeps): Route {
  return route(getTemplate, async ({ params }, context) => {
    const found = await rows.findTemplate(db.read, params.templateId)
    return shownTo(callerOf(context), found ?? context.fail('TEMPLATE_NOT_FOUND', operations.GONE))
  })
}
