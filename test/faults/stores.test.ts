// @module-tag long
import { access, copyFile, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listServers, type Server } from '../../src/shared/api/servers.ts'
import { gone, isAlive, until } from '../e2e/wait.ts'
import { type FaultNode, FaultPanel } from './fault-panel.ts'
import { GAME } from './machine.ts'

let panel: FaultPanel
let node: FaultNode
let templateId: string
let game: Server

beforeAll(async () => {
  panel = await FaultPanel.enter()
  node = await panel.addMachine('stores')
  templateId = await panel.makeTemplate('game', GAME)
  game = await panel.makeServer(node, { name: 'kept', templateId })
})

afterAll(async () => {
  await panel?.leave()
})

/** Gives an order and resolves with its end. */
async function carriedOut(id: string, action: 'start' | 'stop' | 'restart') {
  const commandId = await panel.order(id, action)
  return await until(`the end of the ${action}`, async () =>
    (await panel.orderEnds(id)).find((end) => end['commandId'] === commandId),
  )
}

/** Runs `panel nodes orphans …` on the node; answers what it prints as JSON. */
async function orphans(verb: string, ...args: readonly string[]): Promise<unknown> {
  const { code, stdout, stderr } = await panel.run(['nodes', 'orphans', verb, 'stores', ...args, '-o', 'json'])
  expect(code, stderr).toBe(0)
  return JSON.parse(stdout)
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

describe('a database that was restored from a copy while its node ran on', () => {
  it('takes orders again, and what was made since is adopted or purged', {
    timeout: 90_000,
  }, async () => {
    const place = ['--data-dir', join(panel.home, 'daemon')]
    const copy = join(panel.home, 'copy.db')
    await panel.killDaemon('SIGTERM')
    await copyFile(join(panel.home, 'daemon', 'db', 'panel.db'), copy)
    await panel.startDaemon()
    await panel.online(node)
    expect(await carriedOut(game.id, 'restart')).toMatchObject({ ok: true })
    const { pid } = await panel.serverWhen(game.id, 'running')
    const wanted = await panel.makeServer(node, { name: 'wanted', templateId })
    const unwanted = await panel.makeServer(node, { name: 'unwanted', templateId })
    const files = dirname(panel.fileOf(node, unwanted.id, 'starts'))
    await panel.killDaemon('SIGTERM')
    const restored = await panel.run(['db', 'restore', copy, '--yes', ...place])
    expect(restored.code, restored.stderr).toBe(0)
    await panel.startDaemon()
    await panel.online(node)

    await until('the process of now', async () => (await panel.server(game.id)).pid === pid)
    expect((await panel.client.call(listServers, {})).map(({ id }) => id)).toEqual([game.id])
    expect(await carriedOut(game.id, 'stop')).toMatchObject({ ok: true, noop: false })
    await gone(pid ?? 0)
    expect(await carriedOut(game.id, 'start')).toMatchObject({ ok: true, noop: false })
    await panel.serverWhen(game.id, 'running')

    const found = (await orphans('list')) as readonly { serverId: string }[]
    expect(new Set(found.map(({ serverId }) => serverId))).toEqual(new Set([wanted.id, unwanted.id]))
    await orphans('adopt', wanted.id)
    expect(await panel.serverWhen(wanted.id, 'running')).toMatchObject({ name: 'wanted', pid: wanted.pid })
    expect(await carriedOut(wanted.id, 'stop')).toMatchObject({ ok: true, noop: false })
    await gone(wanted.pid ?? 0)
    expect(await isAlive(unwanted.pid ?? 0)).toBe(true)
    await orphans('purge', unwanted.id, '--yes')
    await gone(unwanted.pid ?? 0)
    await until('its files are gone', async () => !(await isThere(files)))
    expect(await orphans('list')).toEqual([])
  })
})

describe('an agent whose journal is removed', () => {
  it('shows its game as running, which a stop ends', { timeout: 60_000 }, async () => {
    const { pid } = await panel.serverWhen(game.id, 'running')
    const starts = await panel.starts(node, game)
    await rm(join(node.dir, 'journal', 'journal.jsonl'))
    await panel.killAgent(node)
    await panel.online(node, false)
    await panel.serverWhen(game.id, 'unknown')
    panel.startAgent(node)
    expect(await panel.serverWhen(game.id, 'running')).toMatchObject({ pid, crashCount: 0 })
    expect(await isAlive(pid ?? 0)).toBe(true)
    expect(await panel.starts(node, game)).toBe(starts)
    expect(await carriedOut(game.id, 'stop')).toMatchObject({ ok: true, noop: false })
    await gone(pid ?? 0)
    await panel.serverWhen(game.id, 'stopped')
  })
})
