import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApiKey, listRoles } from '../../src/shared/api/api-keys.ts'
import { login } from '../../src/shared/api/auth.ts'
import * as nodes from '../../src/shared/api/nodes.ts'
import * as roles from '../../src/shared/api/roles.ts'
import { createUser, updateUser } from '../../src/shared/api/users.ts'
import type { Client } from '../../src/shared/client.ts'
import { PanelError } from '../../src/shared/kernel/errors.ts'
import { startPanel, type TestPanel } from '../panel.ts'

const PASSWORD = 'Correct-horse-1'

let panel: TestPanel
let moderator: Client
/** Manages roles, accounts and keys, adds and edits nodes, and holds no right to their keys. */
let manager: Client & { readonly id: string; readonly roleId: string }
let adminId: string

const MANAGES = [
  'node.create', 'node.read', 'node.update', 'node.delete', 'role.read', 'role.create', 'role.update', 'user.read', 'user.create',
  'user.update', 'user.set_roles', 'apikey.manage',
] // biome-ignore format: a list

beforeAll(async () => {
  panel = await startPanel()
  const presets = await panel.client.call(roles.getRolePresets)
  moderator = await person('mod', presets.find(({ key }) => key === 'moderator')?.permissions ?? [])
  manager = await person('manager', MANAGES)
  adminId = (await panel.client.call(listRoles, { query: {} })).find(({ name }) => name === 'Administrator')?.id ?? ''
}, 60_000)
afterAll(() => panel.close())

async function person(username: string, permissions: readonly string[]) {
  const role = await panel.client.call(roles.createRole, { body: { name: username, permissions: [...permissions] } })
  const email = `${username}@example.org`
  const body = { email, username, password: PASSWORD, roleIds: [role.id] }
  const { id } = await panel.client.call(createUser, { body })
  const { token } = await panel.as(undefined).call(login, { body: { email, password: PASSWORD } })
  return { ...panel.as(token), id, roleId: role.id }
}

/** What the call is refused with: the missing permissions, or the code. */
async function missing(call: Promise<unknown>): Promise<unknown> {
  try {
    await call
  } catch (error) {
    if (!(error instanceof PanelError)) throw error
    return error.code === 'PERMISSION_DENIED' ? error.meta['missing'] : error.code
  }
  return 'nothing'
}

/** Every way to the key of a node. */
const waysToAKey = (by: Client, nodeId: string): readonly (() => Promise<unknown>)[] => {
  const params = { nodeId }
  return [
    () => by.call(nodes.createNodeKey, { params, body: { regenerate: true } }),
    () => by.call(nodes.createNodeKey, { params }),
    () => by.call(nodes.createDeploymentToken, { params }),
    () => by.call(nodes.deleteNodeKey, { params }),
  ]
}

describe("a node's key", () => {
  it('is out of reach of the preset Moderator and of who adds and edits nodes', async () => {
    for (const by of [moderator, manager]) {
      for (const way of waysToAKey(by, panel.nodeId)) expect(await missing(way())).toEqual(['node.rotate_key'])
      expect(
        await missing(by.call(nodes.updateNode, { params: { nodeId: panel.nodeId }, body: { description: 'x' } })),
      ).toBe('nothing')
      const shown = await by.call(nodes.getNodeKey, { params: { nodeId: panel.nodeId } })
      expect(JSON.stringify(shown)).not.toMatch(/pnk_[0-9a-z]{26}_[A-Za-z0-9_-]{43}/)
    }
  })

  it('is not made by an enrolment token from before the key was ended or made anew', async () => {
    const node = {
      name: 'b',
      locationId: (await panel.client.call(nodes.getNode, { params: { nodeId: panel.nodeId } })).locationId,
    }
    const { id: nodeId } = await panel.client.call(nodes.createNode, {
      body: {
        ...node,
        hostname: 'b',
        publicAddress: '127.0.0.1',
        defaultIp: '127.0.0.1',
        maxMemoryMb: 1024,
        maxCpuCores: 1,
      },
    })
    const params = { nodeId }
    const token = async () => (await panel.client.call(nodes.createDeploymentToken, { params })).deploymentToken
    const enroll = (deploymentToken: string) =>
      missing(panel.as(undefined).call(nodes.enrollAgent, { body: { deploymentToken } }))
    const early = [await token(), await token()]
    await panel.client.call(nodes.createNodeKey, { params })
    for (const one of early) expect(await enroll(one)).toBe('DEPLOYMENT_TOKEN_INVALID')
    const open = [await token(), await token()]
    await panel.client.call(nodes.deleteNodeKey, { params })
    for (const one of open) expect(await enroll(one)).toBe('DEPLOYMENT_TOKEN_INVALID')
    // What is open is ended where there is no key as well, and a machine that has joined leaves no way in to another one.
    const [first = '', ...others] = [await token(), await token()]
    await panel.client.call(nodes.deleteNodeKey, { params })
    expect(await enroll(first)).toBe('DEPLOYMENT_TOKEN_INVALID')
    const last = [await token(), await token()]
    expect(await enroll(last[0] ?? '')).toBe('nothing')
    for (const one of [...others, last[1] ?? '']) expect(await enroll(one)).toBe('DEPLOYMENT_TOKEN_INVALID')
  })

  it('is out of reach through roles, keys and accounts that one manages', async () => {
    const right = { body: { permission: 'node.rotate_key' } }
    const key = ['node.rotate_key']
    expect(
      await missing(manager.call(roles.addRolePermission, { params: { roleId: manager.roleId }, ...right })),
    ).toEqual(key)
    expect(await missing(manager.call(roles.createRole, { body: { name: 'own', permissions: key } }))).toEqual(key)
    expect(await missing(manager.call(createApiKey, { body: { name: 'own', permissions: key } }))).toEqual(key)
    const scoped = [`node.rotate_key:${panel.nodeId}`]
    expect(await missing(manager.call(createApiKey, { body: { name: 'own', permissions: scoped } }))).toEqual(scoped)
    const promoted = manager.call(updateUser, { params: { userId: manager.id }, body: { roleIds: [adminId as never] } })
    expect(await missing(promoted)).not.toBe('nothing')
    const made = await manager.call(createApiKey, { body: { name: 'own', permissions: MANAGES } })
    for (const way of waysToAKey(panel.as(made.key), panel.nodeId)) expect(await missing(way())).toEqual(key)
  })

  it('of one node is for who holds the right for that node, and no other', async () => {
    const permissions = [`node.rotate_key:${panel.nodeId}`]
    const { key } = await panel.client.call(createApiKey, { body: { name: 'one node', permissions } })
    const { deploymentToken } = await panel
      .as(key)
      .call(nodes.createDeploymentToken, { params: { nodeId: panel.nodeId } })
    expect(deploymentToken).not.toBe('')
    expect(await missing(panel.as(key).call(nodes.createDeploymentToken, { params: { nodeId: 'another' } }))).toEqual([
      'node.rotate_key',
    ])
  })
})
