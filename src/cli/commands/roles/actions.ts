import { listRoles as listRolesEndpoint, type Role } from '../../../shared/api/api-keys.ts'
import { listRoleNodes } from '../../../shared/api/assignments.ts'
import * as api from '../../../shared/api/roles.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, view, wide } from '../../kit/output/view.ts'
import { call, deleteAction, editAction, subjectOf, viewAction } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import { resolveAll } from '../../kit/resource/resolve.ts'
import { REACHED } from '../nodes/assignment-views.ts'

const VIEW = view<Role>([
  column('NAME', (row) => row.name),
  column('USERS', (row) => row.userCount),
  column('PERMISSIONS', (row) => (row.permissions.includes('*') ? 'everything' : row.permissions.length)),
  column('ID', (row) => row.id),
  wide('DESCRIPTION', (row) => row.description),
])

const SUBJECT = { ref: 'role', param: 'roleId' } as const

export const listRoles = listAction(listRolesEndpoint, VIEW)
export const viewRole = viewAction(api.getRole, SUBJECT, VIEW)
export const editRole = editAction(api.updateRole, SUBJECT, VIEW)
export const deleteRole = deleteAction(api.deleteRole, SUBJECT, 'role')
export const roleNodes = listAction(listRoleNodes, REACHED, async (run) => ({
  params: { roleId: (await subjectOf(run, SUBJECT)).id },
}))

interface Preset {
  readonly id: string
  readonly name: string
  readonly label: string
  readonly permissions: readonly string[]
}

const PRESET = view<Preset>([
  column('PRESET', (row) => row.name),
  column('LABEL', (row) => row.label),
  column('PERMISSIONS', (row) => row.permissions.join(',')),
])

export const listPresets: Action = async (run) => {
  const presets = await call(run, api.getRolePresets, { params: {} })
  await run.out.list(
    presets.map((preset) => ({ ...preset, id: preset.key, name: preset.key })),
    PRESET,
  )
}

/** The permissions of a preset come first; options and `-F` add to them. */
export const createRole: Action = async (run) => {
  const body = await fieldsOf(run)
  const wanted = run.args.text('preset')
  if (wanted !== undefined) {
    const presets = await call(run, api.getRolePresets, { params: {} })
    const preset = presets.find(({ key }) => key === wanted)
    if (preset === undefined) {
      throw usage(`--preset must be ${presets.map(({ key }) => key).join(', ')}, not '${wanted}'`)
    }
    const more = Array.isArray(body['permissions']) ? body['permissions'].map(String) : []
    body['permissions'] = [...new Set([...preset.permissions, ...more])]
    body['description'] ??= preset.description
  }
  await run.out.item(await call(run, api.createRole, { params: {}, body }), VIEW)
}

export const grantPermission: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const body = { permission: run.args.text('permission') ?? missing('--permission') }
  await run.out.item(await call(run, api.addRolePermission, { params: { roleId: id }, body }), VIEW)
}

export const revokePermission: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const permission = run.args.text('permission') ?? missing('--permission')
  await run.out.item(await call(run, api.removeRolePermission, { params: { roleId: id, permission } }), VIEW)
}

/** Adds and removes members; prints how many the role has afterwards. */
export const changeMembers: Action = async (run) => {
  const role = await subjectOf(run, SUBJECT)
  const [add, remove] = [run.args.list('add'), run.args.list('remove')]
  if (add.length + remove.length === 0) throw usage('pass --add or --remove', `panel users list --role '${role.name}'`)
  const added = add.length === 0 ? [] : await resolveAll(run, 'user', add)
  const removed = remove.length === 0 ? [] : await resolveAll(run, 'user', remove)
  const client = await run.client()
  for (const { id: userId } of added) {
    const params = { roleId: role.id, userId }
    await client.call(api.addRoleMember, { params }, { idempotencyKey: run.idempotencyKey(userId) })
  }
  for (const { id: userId } of removed) await call(run, api.removeRoleMember, { params: { roleId: role.id, userId } })
  if (run.out.machine) return run.out.value({ roleId: role.id, added: added.length, removed: removed.length })
  run.notice(`${role.name}: ${added.length} added, ${removed.length} removed`)
}

function missing(flag: string): never {
  throw usage(`${flag} is required`)
}
