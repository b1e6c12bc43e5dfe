// @module-tag long
import { afterAll, beforeAll, expect, it } from 'vitest'
import { AgentStage, gameSpec } from '../agent/agent-stage.ts'
import { anEarlierBoot, cutPower } from '../agent/power-cut.ts'
import { mostStartingAtOnce, orderOfStarts, pidsOf, STARTS_WHEN_TYPED, upByTyping } from '../agent/starts.ts'

const COUNT = 50
/** How many start at the same time unless the agent is set up otherwise. */
const AT_ONCE = 4
const names = Array.from({ length: COUNT }, (_, at) => `g${String(at).padStart(2, '0')}`)
const idOf = (name: string): string => `srv_${name}`
/** The last ten come first, all others by their names. */
const orderOf = (name: string): number => (name >= 'g40' ? -1 : 0)

let stage: AgentStage
beforeAll(async () => {
  stage = await AgentStage.enter()
  await stage.startAgent()
}, 60_000)
afterAll(async () => {
  await stage.leave(names.map(idOf))
}, 300_000)

it('fifty servers start by their orders, four at a time, each once', async () => {
  const begin = async (name: string): Promise<{ id: string; pid: number | null }> => {
    const id = idOf(name)
    const boot = { policy: 'unless-stopped', order: orderOf(name) } as const
    const spec = gameSpec(id, 1, { name, boot, startup: STARTS_WHEN_TYPED })
    await stage.peer.order(id, 1, { op: 'start', spec })
    await upByTyping(stage, [{ id, pid: null }], 1)
    return { id, pid: stage.peer.reports(id).at(-1)?.pid ?? null }
  }
  const servers: { id: string; pid: number | null }[] = []
  for (let at = 0; at < COUNT; at += 5) servers.push(...(await Promise.all(names.slice(at, at + 5).map(begin))))
  await stage.killAgent()
  await cutPower(stage.dataDir, servers)
  await anEarlierBoot(stage.dataDir)
  const from = stage.peer.frames.length
  await stage.startAgent()
  await upByTyping(stage, servers, AT_ONCE)
  const frames = stage.peer.frames.slice(from)
  expect(mostStartingAtOnce(frames)).toBe(AT_ONCE)
  const wanted = [...names].sort((a, b) => orderOf(a) - orderOf(b) || (a < b ? -1 : 1)).map(idOf)
  const begun = orderOfStarts(frames)
  expect([...begun].sort()).toEqual([...wanted].sort())
  // Those that have a place at the same time may report in any order.
  for (const [at, id] of begun.entries()) expect(Math.abs(wanted.indexOf(id) - at)).toBeLessThan(AT_ONCE)
  for (const { id } of servers) expect(pidsOf(frames, id)).toHaveLength(1)
}, 300_000)
