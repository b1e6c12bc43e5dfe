// @module-tag long
import { access } from 'node:fs/promises'
import { dirname } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deleteServer, type Server } from '../../src/shared/api/servers.ts'
import { gone, isAlive, until } from '../e2e/wait.ts'
import { type FaultNode, FaultPanel } from './fault-panel.ts'
import { GAME } from './machine.ts'

let panel: FaultPanel
let node: FaultNode
let games: Server[]

beforeAll(async () => {
  panel = await FaultPanel.enter()
  node = await panel.addMachine('away')
  const templateId = await panel.makeTemplate('game', GAME)
  const names = ['deleted', 'kept']
  games = await Promise.all(names.map((name) => panel.makeServer(node, { name, templateId })))
})

afterAll(async () => {
  await panel?.leave()
})

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

describe('a server that is deleted by force while its node is away', () => {
  it('is ended and removed there when the node is back, and its neighbour is left alone', async () => {
    const [deleted, kept] = games
    if (deleted === undefined || kept === undefined) throw new Error('no servers')
    const files = dirname(panel.fileOf(node, deleted.id, 'starts'))
    await panel.killAgent(node)
    await panel.online(node, false)
    await panel.client.call(deleteServer, { params: { serverId: deleted.id }, query: { force: 'true' } })
    await expect(panel.server(deleted.id)).rejects.toMatchObject({ code: 'SERVER_NOT_FOUND' })
    expect(await isAlive(deleted.pid ?? 0)).toBe(true)
    expect(await isThere(files)).toBe(true)

    panel.startAgent(node)
    await panel.online(node)
    await gone(deleted.pid ?? 0)
    await until('its files are gone', async () => !(await isThere(files)))
    expect(await panel.serverWhen(kept.id, 'running')).toMatchObject({ pid: kept.pid, crashCount: 0 })
    expect(await isAlive(kept.pid ?? 0)).toBe(true)
    expect(await panel.starts(node, kept)).toBe(1)
    const ends = await until('the deletion is told', async () => {
      const reported = (await panel.orderEnds(deleted.id)).filter(({ op }) => op === 'delete')
      return reported.length > 0 && reported
    })
    expect(ends).toMatchObject([{ ok: true }])
  })
})
