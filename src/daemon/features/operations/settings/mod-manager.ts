import * as api from '../../../../shared/api/settings.ts'
import { operationsOver } from '../../../access/operation.ts'
import { changeGroup, type GroupDeps, groupView, type SettingGroup } from './group.ts'

const MOD_MANAGER_FIELDS = {
  curseforgeApiKey: 'modManager.curseforgeApiKey',
  modrinthApiKey: 'modManager.modrinthApiKey',
} as const
const MOD_MANAGER: SettingGroup<typeof MOD_MANAGER_FIELDS> = {
  name: 'mod-manager',
  event: 'system_settings_updated',
  fields: MOD_MANAGER_FIELDS,
}

export const updateModManagerSettings = operationsOver<GroupDeps>()(
  api.updateModManagerSettings,
  async (work, { body }) => {
    const { view, done } = await changeGroup(work, MOD_MANAGER, { given: body })
    return { ...done, answer: view }
  },
)

/** The keys of catalogues of mods as they are answered. */
export function modManagerSettings(deps: Pick<GroupDeps, 'settings'>) {
  return groupView(deps, MOD_MANAGER)
}
