import * as api from '../../../../shared/api/security-settings.ts'
import { SECURITY_NUMBERS, type SecurityField } from '../../../../shared/kernel/security-numbers.ts'
import { operationsOver } from '../../../access/operation.ts'
import type { SettingKey } from '../../../core/settings.ts'
import { changeGroup, type GroupDeps, groupView, type SettingGroup } from './group.ts'

type NumberKeys = { readonly [F in SecurityField]: (typeof SECURITY_NUMBERS)[F]['key'] }
type Keys = NumberKeys & { readonly registrationEnabled: 'security.registrationEnabled' }

const SECURITY: SettingGroup<Keys> = {
  name: 'security',
  event: 'security_settings_updated',
  fields: {
    ...(Object.fromEntries(
      Object.entries(SECURITY_NUMBERS).map(([field, { key }]): [string, SettingKey] => [field, key]),
    ) as NumberKeys), // made from its keys
    registrationEnabled: 'security.registrationEnabled',
  },
}

export const updateSecuritySettings = operationsOver<GroupDeps>()(
  api.updateSecuritySettings,
  async (work, { body }) => {
    const { view, done } = await changeGroup(work, SECURITY, { given: body })
    return { ...done, answer: view }
  },
)

/** The limits: whoever counts asks for the present number each time, so that a change is in force at once. */
export function securitySettings(deps: Pick<GroupDeps, 'settings'>) {
  return groupView(deps, SECURITY)
}
