import * as api from '../../../../shared/api/server-life.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { SECRET_MASK } from '../../../../shared/kernel/setting-values.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { permitServer } from '../../../access/permit.ts'
import { operate } from '../../../http/operate.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { answerEula } from './answer-eula.ts'
import * as operations from './life-operations.ts'
import type { ServerDeps } from './operations.ts'
import { findServerRow } from './rows.ts'
import { definitionOf, environmentOf } from './view.ts'

/** What follows an end, crashes, agreements and variables of a server. */
export function lifeRoutes(deps: ServerDeps): Route[] {
  const { db } = deps
  return [
    route(api.answerServerEula, ({ params: { serverId }, body: { accepted } }, { principal }) =>
      answerEula(deps, { principal, endpoint: api.answerServerEula }, { serverId, accepted }),
    ),
    route(api.answerEula, async ({ body }, context) => {
      await permitServer({ q: db.read, now: now(deps.clock) }, callerOf(context), body.serverId, ['server.start'])
      return await answerEula(deps, { principal: context.principal, endpoint: api.answerEula }, body)
    }),
    operate(operations.setRestartPolicy, deps),
    operate(operations.resetCrashCount, deps),
    route(api.listServerVariables, async ({ params }, context) => {
      const row = await findServerRow(db.read, params.serverId)
      if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
      const { masked } = deps.facts.templates.of(row, callerOf(context))
      const values = environmentOf(row)
      const shown = (name: string, value: string): string => (masked.has(name) && value !== '' ? SECRET_MASK : value)
      return definitionOf(row).variables.map((variable) => ({
        ...variable,
        default: shown(variable.name, variable.default),
        value: shown(variable.name, values[variable.name] ?? variable.default),
      }))
    }),
    operate(operations.setServerVariables, deps),
  ]
}
