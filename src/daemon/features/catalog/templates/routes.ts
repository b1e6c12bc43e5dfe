import { isDeepStrictEqual } from 'node:util'
import { listCatalog as catalogOf } from '../../../../shared/api/template-catalog.ts'
import type { EggFormat } from '../../../../shared/api/template-eggs.ts'
import { exportTemplate, getTemplate, listTemplates } from '../../../../shared/api/templates.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { exportEgg } from '../../../../shared/templates/egg-export.ts'
import { operate } from '../../../http/operate.ts'
import { cachedRoute, callerOf, holderOf, type Route, route } from '../../../http/route.ts'
import { Catalog } from './catalog.ts'
import { type CatalogDeps, installTemplate, listCatalog } from './catalog-operations.ts'
import { shownTo } from './definition.ts'
import type { TemplateDeps } from './deps.ts'
import { newTemplateOfEgg, patchOfEgg } from './egg-bodies.ts'
import { nestRoutes } from './nest-routes.ts'
import * as operations from './operations.ts'
import * as rows from './rows.ts'
import type { ShippedDeps } from './starter.ts'

/** The routes of templates and nests. */
export function templateRoutes(deps: ShippedDeps): Route[] {
  const shipped: CatalogDeps = { ...deps, catalog: new Catalog() }
  return [
    route(catalogOf, () => listCatalog(deps.db.read, shipped)),
    operate(installTemplate, shipped),
    list(),
    get(),
    exportOne(deps),
    { ...operate(operations.createTemplate, deps), convert: newTemplateOfEgg },
    operate(operations.importEgg, deps),
    { ...operate(operations.updateTemplate, deps), convert: patchOfEgg },
    operate(operations.deleteTemplate, deps),
    ...nestRoutes(deps),
  ]
}

function list(): Route {
  return cachedRoute(listTemplates, async ({ query }, context) => {
    const { items, total } = await rows.listTemplates(context.at.q, query)
    return { items: items.map((template) => shownTo(holderOf(context), template)), total }
  })
}

function get(): Route {
  return cachedRoute(getTemplate, async ({ params }, context) => {
    const found = await rows.findTemplate(context.at.q, params.templateId)
    return shownTo(holderOf(context), found ?? context.fail('TEMPLATE_NOT_FOUND', operations.GONE))
  })
}

/** Without the nest, which another panel does not have; secrets as everywhere. */
function exportOne({ db, clock }: TemplateDeps): Route {
  return route(exportTemplate, async ({ params: { templateId }, query: { format } }, context) => {
    const found = await rows.findDefinition(db.read, templateId)
    const stored = found ?? context.fail('TEMPLATE_NOT_FOUND', operations.GONE)
    const { variables } = shownTo(callerOf(context), { id: templateId, variables: stored.variables })
    const template = { ...stored, nestId: null, variables }
    const kept = (await rows.findEgg(db.read, templateId)) ?? null
    const written = (to?: EggFormat) => exportEgg({ template, egg: kept, format: to, exportedAt: now(clock) })
    if (format !== 'panel') return written(format === 'egg' ? undefined : format)
    // The egg has the defaults of secrets too.
    const egg = kept === null || isDeepStrictEqual(variables, stored.variables) ? kept : written()
    return { ...template, egg }
  })
}
