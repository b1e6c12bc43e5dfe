import { getSecuritySettings, updateSecuritySettings } from '../../../../shared/api/security-settings.ts'
import { SECURITY_NUMBERS, type SecurityField } from '../../../../shared/kernel/security-numbers.ts'
import type { SettingKey } from '../../../core/settings.ts'
import { type Route, route } from '../../../http/route.ts'
import { changeGroup, type GroupDeps, groupView, type SettingGroup } from './group.ts'

type NumberKeys = { readonly [F in SecurityField]: (typeof SECURITY_NUMBERS)[F]['key'] }
type Keys = NumberKeys & { readonly registrationEnabled: 'security.registrationEnabled' }

const SECURITY: SettingGroup<Keys> = {
  name: 'security',
  action: 'settings.security_update',
  event: 'security_settings_updated',
  fields: {
    ...(Object.fromEntries(
      Object.entries(SECURITY_NUMBERS).map(([field, { key }]): [string, SettingKey] => [field, key]),
    ) as NumberKeys), // made from its keys
    registrationEnabled: 'security.registrationEnabled',
  },
}

/** The limits: whoever counts asks for the present number each time, so that a change is in force at once. */
export function securityRoutes(deps: GroupDeps): Route[] {
  return [
    route(getSecuritySettings, async () => groupView(deps, SECURITY)),
    route(updateSecuritySettings, async ({ body }, { actor }) => {
      await changeGroup(deps, SECURITY, { given: body, actor })
      return groupView(deps, SECURITY)
    }),
  ]
}
