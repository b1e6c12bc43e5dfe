// @module-tag long
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ServerSpec } from '../../src/shared/protocol/server-spec.ts'
import { AgentStage, gameSpec } from './agent-stage.ts'
import { anEarlierBoot, cutPower } from './power-cut.ts'
import { mostStartingAtOnce, orderOfStarts, pidsOf, STARTS_WHEN_TYPED, upByTyping } from './starts.ts'

let stage: AgentStage
let used: string[]

beforeEach(async () => {
  used = []
  stage = await AgentStage.enter()
  stage.starts = { atOnce: 2 }
  await stage.startAgent()
}, 30_000)

afterEach(async () => {
  await stage.leave(used)
}, 60_000)

function serverNamed(name: string): string {
  used.push(`srv_${name}`)
  return `srv_${name}`
}

async function begin(name: string, change: Partial<ServerSpec>): Promise<{ id: string; pid: number | null }> {
  const id = serverNamed(name)
  await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1, { name, ...change }) })
  const { pid } = await stage.peer.report(id, `${name} running`, ({ power }) => power === 'running')
  return { id, pid }
}

/** Restarts the machine under the agent. Answers how many frames came before. */
async function reboot(servers: readonly { readonly id: string; readonly pid: number | null }[]): Promise<number> {
  await stage.killAgent()
  await cutPower(stage.dataDir, servers)
  await anEarlierBoot(stage.dataDir)
  const { length } = stage.peer.frames
  await stage.startAgent()
  return length
}

const boot = (policy: 'always' | 'unless-stopped' | 'never', order = 0): Pick<ServerSpec, 'boot'> => ({
  boot: { policy, order },
})

describe('after a restart of the machine', () => {
  it('what was wanted starts by its order and its name, so many at the same time, each once', async () => {
    const names = ['e', 'd', 'c', 'b', 'a']
    for (const name of names) {
      const change = { startup: STARTS_WHEN_TYPED, ...boot('unless-stopped', name === 'a' ? 5 : 0) }
      const id = serverNamed(name)
      await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1, { name, ...change }) })
    }
    const unstarted = names.map((name) => ({ id: `srv_${name}`, pid: null }))
    await upByTyping(stage, unstarted, names.length)
    const servers = unstarted.map(({ id }) => ({ id, pid: stage.peer.reports(id).at(-1)?.pid ?? null }))
    const from = await reboot(servers)
    await upByTyping(stage, servers, 2)
    const frames = stage.peer.frames.slice(from)
    expect(mostStartingAtOnce(frames)).toBe(2)
    const order = orderOfStarts(frames).map((id) => id.slice(4))
    expect([order.slice(0, 2).sort(), order.slice(2, 4).sort(), order[4]]).toEqual([['b', 'c'], ['d', 'e'], 'a'])
    for (const { id } of servers) expect(pidsOf(frames, id)).toHaveLength(1)
    const waited = stage.peer.reports('srv_a').some(({ reason }) => reason?.includes('at most 2 servers at once'))
    expect(waited).toBe(true)
  })

  it('a policy of never keeps down what ran, with the reason, and always starts what was stopped', async () => {
    const [down, up, rest] = await Promise.all([
      begin('down', boot('never')),
      begin('up', boot('always')),
      begin('rest', boot('unless-stopped')),
    ])
    await stage.peer.order(up.id, 2, { op: 'stop' })
    await stage.peer.order(rest.id, 2, { op: 'stop' })
    await reboot([down, up, rest])
    await stage.peer.report(up.id, 'up again', ({ power, pid }) => power === 'running' && pid !== up.pid)
    const kept = stage.peer.of('snapshot').at(-1)?.servers
    const [stayed] = [...(kept ?? []), ...stage.peer.reports(down.id)]
      .filter(({ serverId }) => serverId === down.id)
      .slice(-1)
    expect(stayed).toMatchObject({ power: 'offline', pid: null, crash: { crashed: false, nextRestartMs: null } })
    expect(stayed?.reason).toContain('boot policy (never)')
    expect(kept?.find(({ serverId }) => serverId === rest.id)).toMatchObject({ power: 'offline' })
    // Once per boot: a restart of the agent alone starts nothing.
    await stage.peer.order(up.id, 3, { op: 'stop' })
    await stage.stopAgent()
    await stage.startAgent()
    expect(
      stage.peer
        .of('snapshot')
        .at(-1)
        ?.servers.find(({ serverId }) => serverId === up.id),
    ).toMatchObject({
      power: 'offline',
      crash: { nextRestartMs: null },
    })
  })

  it('an order of a person does not wait for the turn of what the node starts', async () => {
    stage.starts = { atOnce: 1 }
    const never = {
      startup: 'read -r line; echo ready; read -r line',
      done: [{ kind: 'contains' as const, value: 'ready' }],
    }
    const first = serverNamed('first')
    await stage.peer.order(first, 1, { op: 'start', spec: gameSpec(first, 1, { name: 'first', ...never }) })
    const { pid } = await stage.peer.report(first, 'starting', (report) => report.pid !== null)
    const second = await begin('second', {})
    await reboot([{ id: first, pid }, second])
    await stage.peer.report(first, 'first begun', (report) => report.pid !== null && report.pid !== pid)
    await stage.peer.report(second.id, 'second waits', ({ reason }) => reason?.includes('waits for its turn') === true)
    const done = await stage.peer.order(second.id, 2, { op: 'start', spec: gameSpec(second.id, 2, { name: 'second' }) })
    expect(done.ok).toBe(true)
    await stage.peer.report(second.id, 'second up', ({ power }) => power === 'running')
  })
})
