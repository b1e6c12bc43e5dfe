// @module-tag long
import { cp, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ServerReport } from '../../src/shared/protocol/server.ts'
import { AgentStage, gameSpec, isAlive } from './agent-stage.ts'

let stage: AgentStage
let used: string[]

beforeEach(async () => {
  used = []
  stage = await AgentStage.enter()
  await stage.startAgent()
}, 30_000)
afterEach(async () => {
  stage.peer.known = {}
  await stage.leave(used)
}, 60_000)

const journal = () => join(stage.dataDir, 'journal', 'journal.jsonl')
const copy = () => join(stage.dataDir, 'journal.copy')

/** A game that writes down each of its starts. */
async function begun(name: string): Promise<{ id: string; startId: string; pid: number }> {
  const id = `srv_${name}`
  used.push(id)
  const startId = stage.peer.nextId()
  const startup = 'echo start >> starts; echo ready; exec sleep 1000'
  const spec = gameSpec(id, 1, { startup, stop: { type: 'signal', value: 'SIGTERM', timeoutMs: 5000 } })
  stage.peer.send({ type: 'command', id: startId, serverId: id, generation: 1, command: { op: 'start', spec } })
  await stage.peer.done(startId)
  const { pid } = await stage.peer.report(id, 'running', ({ power }) => power === 'running')
  return { id, startId, pid: pid ?? 0 }
}

const starts = async (id: string): Promise<number> =>
  (await readFile(join(stage.dataDir, 'servers', id, 'starts'), 'utf8')).split('\n').length - 1

const snapshotOf = (id: string): ServerReport | undefined =>
  stage.peer
    .of('snapshot')
    .at(-1)
    ?.servers.find(({ serverId }) => serverId === id)

describe('an agent whose journal', () => {
  it('is gone finds its games by what their holders have written: running ones run, and can be stopped', async () => {
    const { id, pid } = await begun('gone')
    await stage.killAgent()
    await rm(journal())
    stage.peer.eventAck = 0
    stage.peer.known = { settled: [{ serverId: id, generation: 4, desired: 'running' }] }
    await stage.startAgent()
    expect(snapshotOf(id)).toMatchObject({ power: 'running', pid, installed: true, generation: 0 })
    expect((await stage.peer.order(id, 3, { op: 'stop' })).error?.code).toBe('STALE_GENERATION')
    expect(await stage.peer.order(id, 5, { op: 'stop' })).toMatchObject({ ok: true, noop: false })
    expect(await isAlive(pid)).toBe(false)
  })

  it('is gone names a stopped server as installed, and starts it with the specification that an order brings', async () => {
    const { id } = await begun('rest')
    await stage.peer.order(id, 2, { op: 'stop' })
    await stage.killAgent()
    await rm(journal())
    stage.peer.eventAck = 0
    await stage.startAgent()
    expect(snapshotOf(id)).toMatchObject({ power: 'offline', installed: true, crash: { crashed: false } })
    expect(await stage.peer.order(id, 3, { op: 'start', spec: gameSpec(id, 3) })).toMatchObject({ ok: true })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
  })

  it.each([
    ['an older one', async () => cp(copy(), journal())],
    ['cut in the middle of an order', async () => cutBehind(journal(), '"state":"accepted"')],
  ])('is %s starts nothing again that was stopped since', async (_, damage) => {
    const { id, startId } = await begun('old')
    await cp(journal(), copy())
    await stage.peer.order(id, 2, { op: 'stop' })
    await stage.killAgent()
    await damage()
    stage.peer.known = { ended: [startId], settled: [{ serverId: id, generation: 2, desired: 'stopped' }] }
    await stage.startAgent()
    expect(snapshotOf(id)?.power).toBe('offline')
    // Everything that the agent had in mind is behind this order.
    expect(await stage.peer.order(id, 3, { op: 'stop' })).toMatchObject({ ok: true, noop: true })
    expect(await starts(id)).toBe(1)
    expect((await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })).error?.code).toBe('STALE_GENERATION')
  })

  it('is damaged in its midst says so once, and starts no crashed game before the daemon has said what is wanted', async () => {
    const { id, pid } = await begun('hurt')
    await stage.killAgent()
    const text = await readFile(journal(), 'latin1')
    await writeFile(journal(), text.replace('"k":"ack"', '"k":"zzz"').replace('"k":"event"', '"k":"zzz"'), 'latin1')
    process.kill(pid, 'SIGKILL')
    stage.peer.known = { settled: [{ serverId: id, generation: 2, desired: 'stopped' }] }
    await stage.startAgent()
    expect(stage.peer.of('hello').at(-1)?.journalDamaged).toBe(true)
    expect(await stage.peer.order(id, 3, { op: 'stop' })).toMatchObject({ ok: true })
    expect(await starts(id)).toBe(1)
    stage.peer.cut()
    const snapshots = stage.peer.of('snapshot').length
    await stage.peer.until('the next snapshot', () => stage.peer.of('snapshot').length > snapshots)
    expect(stage.peer.of('hello').at(-1)?.journalDamaged).toBeUndefined()
  })

  it('waits with the orders in it until the daemon has said which are over', async () => {
    const { id } = await begun('asks')
    await stage.peer.order(id, 2, { op: 'stop' })
    const [over, open] = [stage.peer.nextId(), stage.peer.nextId()]
    await stage.killAgent()
    // As an agent leaves them that ends right after it has accepted them.
    const lines = [
      { id: over, serverId: id, generation: 2, command: { op: 'start', spec: gameSpec(id, 2) } },
      { id: open, serverId: id, generation: 2, command: { op: 'kill' } },
    ].map((command) => ({ k: 'command', command: { ...command, state: 'accepted', result: null, atMs: Date.now() } }))
    await append(lines)
    stage.peer.known = { ended: [over] }
    await stage.startAgent()
    expect(stage.peer.of('snapshot').at(-1)?.commands).toEqual([over, open])
    expect(await stage.peer.done(open)).toMatchObject({ ok: true })
    expect(stage.peer.events().filter((event) => event.type === 'command.done' && event.commandId === over)).toEqual([])
    await stage.peer.order(id, 3, { op: 'stop' })
    await stage.killAgent()
    await stage.startAgent()
    expect(stage.peer.of('snapshot').at(-1)?.commands).toEqual([])
  })
})

/** Cuts a file off in the midst of the line behind the one that holds the text. */
async function cutBehind(path: string, text: string): Promise<void> {
  const bytes = await readFile(path)
  const line = bytes.indexOf('\n', bytes.indexOf(text)) + 1
  await truncate(path, line + 20)
}

/** Appends records as the agent writes them, in front of the room that the file keeps. */
async function append(records: readonly unknown[]): Promise<void> {
  const { encodeLine } = await import('../../src/agent/state/journal-file.ts')
  const bytes = await readFile(journal())
  const end = bytes.lastIndexOf('\n') + 1
  const lines = records.map((record) => encodeLine(record as never)).join('') // the records of a journal
  await writeFile(journal(), Buffer.concat([bytes.subarray(0, end), Buffer.from(lines), bytes.subarray(end)]))
}
