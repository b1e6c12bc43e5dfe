// @module-tag long
import { execFile, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DIST } from '../run-panel.ts'
import { type FaultNode, FaultPanel } from './fault-panel.ts'
import { GAME } from './machine.ts'

/** A pid namespace of its own, as a container has; an ordinary user needs a user namespace around it. */
const IN_CONTAINER = [
  ...(process.getuid?.() === 0 ? [] : ['--user', '--map-root-user']),
  ...['--fork', '--pid', '--mount-proc', '--kill-child'],
]
const mayUnshare = spawnSync('unshare', [...IN_CONTAINER, 'true']).status === 0
const WHY_NOT = mayUnshare ? '' : ' (skipped: this user may not make a pid namespace)'

let panel: FaultPanel
let node: FaultNode

beforeAll(async () => {
  if (!mayUnshare) return
  panel = await FaultPanel.enter()
  node = await panel.addMachine('box')
})

afterAll(async () => {
  await panel?.leave()
})

/** Runs the program to its end in a container. */
async function contained(args: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const command = [...IN_CONTAINER, process.execPath, join(DIST, 'bin', 'panel.js'), ...args]
  const options = { env: panel.environment(), timeout: 30_000 }
  return promisify(execFile)('unshare', command, options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
  )
}

describe.skipIf(!mayUnshare)(`a folder that two containers have${WHY_NOT}`, { timeout: 90_000 }, () => {
  it('belongs to one daemon, and the other one says whose it is and what to do', async () => {
    const pid = panel.daemonPid
    const folder = ['--data-dir', join(panel.home, 'daemon')]
    const second = await contained(['daemon', 'run', '--listen', '127.0.0.1:0', ...folder])
    expect([second.code, second.stderr]).toEqual([
      14,
      expect.stringMatching(/Another daemon \(process \d+ on \S+ since 20/),
    ])
    expect(second.stderr).toContain(`process ${pid} on`)
    expect(second.stderr).toContain('another container or on another machine: stop it there')
    const status = await contained(['daemon', 'status', '-o', 'json', ...folder])
    expect([status.code, JSON.parse(status.stdout)]).toEqual([0, expect.objectContaining({ status: 'running', pid })])
    // The number means another process there, which must not get the signal.
    const down = await contained(['down', ...folder])
    expect([down.code, down.stderr]).toEqual([7, expect.stringContaining('stop it there')])
    expect(panel.daemonPid).toBe(pid)
    const here = await panel.run(['daemon', 'run', '--listen', '127.0.0.1:0', ...folder])
    expect([here.code, here.stderr]).toEqual([14, expect.stringContaining('stop it with: panel down')])
  })

  it('is free at once when its daemon is killed, and an ordered end leaves nobody in it', async () => {
    const folder = ['--data-dir', join(panel.home, 'daemon')]
    await panel.killDaemon('SIGKILL')
    expect((await panel.run(['daemon', 'status', ...folder])).code).toBe(3)
    await panel.startDaemon()
    await panel.killDaemon('SIGTERM')
    expect((await contained(['daemon', 'status', ...folder])).code).toBe(3)
    await panel.startDaemon()
  })

  it('belongs to one agent, also when that is killed and the holders of its games live on', async () => {
    const game = await panel.makeServer(node, { name: 'game', templateId: await panel.makeTemplate('game', GAME) })
    await panel.killAgent(node)
    panel.startAgent(node)
    await panel.online(node)
    const agentPid = node.agent?.pid
    const second = await contained(['agent', 'run', '--data-dir', node.dir, '--panel-url', panel.url])
    expect([second.code, second.stderr]).toEqual([14, expect.stringContaining(`Another agent (process ${agentPid} on`)])
    expect(second.stderr).toContain('another container or on another machine: stop it there')
    expect(await panel.serverWhen(game.id, 'running')).toMatchObject({ pid: game.pid })
    await panel.order(game.id, 'stop')
    await panel.serverWhen(game.id, 'stopped')
  })
})
