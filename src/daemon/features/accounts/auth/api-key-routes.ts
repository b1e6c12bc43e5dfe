import * as api from '../../../../shared/api/api-keys.ts'
import { PERMISSION_CATALOG } from '../../../../shared/kernel/permissions.ts'
import { operate } from '../../../http/operate.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import * as keys from './api-keys.ts'

/** The routes of API keys. */
export function apiKeyRoutes(deps: keys.ApiKeyDeps): Route[] {
  return [
    route(api.listApiKeys, (input, context) => keys.listApiKeys(deps, input, context)),
    route(api.getPermissionsCatalog, async () =>
      PERMISSION_CATALOG.map((group) => ({ ...group, permissions: [...group.permissions] })),
    ),
    route(api.getMyPermissions, async (_, context) => [...callerOf(context).permissions].sort()),
    route(api.getApiKey, ({ params }, context) => keys.readable(deps.db.read, callerOf(context), params.keyId)),
    route(api.getApiKeyUsage, (input, context) => keys.getApiKeyUsage(deps, input, context)),
    operate(keys.createApiKey, deps),
    operate(keys.updateApiKey, deps),
    operate(keys.deleteApiKey, deps),
  ]
}
