// @module-tag long
import { chmodSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentStage, gameSpec } from '../agent/agent-stage.ts'
import { canMount } from '../agent/can-mount.ts'
import { skippedUnless } from '../skips.ts'

const runs = process.getuid?.() === 0 && canMount()
const NO_MOUNTS = skippedUnless(runs, 'root and private mounts')
const STARTS = 20

let stage: AgentStage
let machine: string
const used: string[] = []

describe.skipIf(!runs)(`folders of the machine that servers may have${NO_MOUNTS}`, { timeout: 120_000 }, () => {
  beforeAll(async () => {
    machine = mkdtempSync('/srv/panel-mounts-')
    chmodSync(machine, 0o755)
    for (const name of ['maps', 'secret']) {
      mkdirSync(join(machine, name))
      writeFileSync(join(machine, name, 'readme'), `this is ${name}\n`)
    }
    stage = await AgentStage.enter()
    stage.mounts = [{ source: join(machine, 'maps'), readOnly: false }]
    await stage.startAgent()
  }, 60_000)

  afterAll(async () => {
    await stage?.leave(used)
    rmSync(machine, { recursive: true, force: true })
  }, 60_000)

  const start = (id: string, generation: number, source: string) => {
    if (!used.includes(id)) used.push(id)
    const mounts = [{ source: join(machine, source), target: 'maps', readOnly: false }]
    const spec = gameSpec(id, generation, { startup: 'cat maps/readme; echo ready; read -r line', mounts })
    return stage.peer.order(id, generation, { op: 'start', spec })
  }
  const running = (id: string) => stage.peer.report(id, 'running', ({ power }) => power === 'running')
  const kill = async (id: string, generation: number): Promise<void> => {
    await stage.peer.order(id, generation, { op: 'kill' })
    await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
  }

  it('what is mounted is what was looked at, however quickly a link is swapped', async () => {
    const id = 'srv_swapped'
    const link = join(machine, 'link')
    let turn = 0
    const swap = (): void => {
      symlinkSync(join(machine, turn++ % 2 === 0 ? 'maps' : 'secret'), `${link}.new`)
      renameSync(`${link}.new`, link)
    }
    swap()
    expect(await start(id, 1, 'link')).toMatchObject({ ok: true })
    await running(id)
    await stage.peer.request({ op: 'console.subscribe', serverId: id, tail: 1000 })
    await kill(id, 2)
    const swapping = setInterval(swap, 1)
    const came = { started: 0, refused: 0 }
    for (let generation = 3; generation < 3 + 2 * STARTS; generation += 2) {
      const { ok, error } = await start(id, generation, 'link')
      if (ok) {
        came.started++
        await running(id)
        await kill(id, generation + 1)
      } else {
        came.refused++
        expect(error?.message).toContain('not in a folder that its agent allows')
      }
    }
    clearInterval(swapping)
    process.stderr.write(`${JSON.stringify(came)}\n`)
    const said = stage.peer.lines(id).map(([, , , text]) => text)
    expect(said.filter((text) => text === 'this is maps')).toHaveLength(1 + came.started)
    expect(said).not.toContain('this is secret')
  })

  it('the file of the agent decides anew at each start: what runs goes on, and does not come again', async () => {
    const id = 'srv_allowed'
    expect(await start(id, 1, 'maps')).toMatchObject({ ok: true })
    const { pid } = await running(id)
    const before = stage.mounts
    const restart = async (mounts: AgentStage['mounts']): Promise<void> => {
      stage.mounts = mounts
      await stage.stopAgent()
      await stage.startAgent()
    }
    await restart(before.map((one) => ({ ...one, readOnly: true })))
    const kept = stage.peer.of('snapshot').at(-1)?.servers
    expect(kept?.find(({ serverId }) => serverId === id)).toMatchObject({ power: 'running', pid })
    await kill(id, 2)
    expect((await start(id, 3, 'maps')).error?.message).toContain('read only (:ro)')
    await restart([])
    expect((await start(id, 4, 'maps')).error?.message).toContain('its agent allows none')
    await restart([{ source: join(machine, 'secret'), readOnly: false }])
    expect((await start(id, 5, 'maps')).error?.message).toContain('not in a folder that its agent allows')
    await restart(before)
    expect(await start(id, 6, 'maps')).toMatchObject({ ok: true })
  })
})
