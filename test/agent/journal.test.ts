import { appendFile, mkdtemp, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Journal } from '../../src/agent/state/journal.ts'
import { type CommandRecord, freshFacts } from '../../src/agent/state/journal-record.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import type { AgentEvent } from '../../src/shared/protocol/frames.ts'
import { SmallDisk } from '../faults/small-disk.ts'
import { gameSpec } from './agent-stage.ts'

let folder: string
const silent = { info: () => {}, warn: () => {}, error: () => {} }

/** `undefined` where this process may not mount a file system: what needs a full disk is skipped there. */
const disk = await SmallDisk.mount(4)
const NO_DISK = disk === undefined ? ' (skipped: this user may not mount a file system)' : ''

afterAll(() => disk?.unmount())

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-journal-'))
})

afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

const open = (outboxBytes?: number): Promise<Journal> =>
  Journal.open({ folder, clock: systemClock, log: silent, ...(outboxBytes === undefined ? {} : { outboxBytes }) })
const file = (): string => join(folder, 'journal.jsonl')

function done(commandId: string): AgentEvent {
  return { type: 'command.done', commandId, serverId: 'srv_a', ok: true, noop: false, error: null }
}

function state(serverId: string, generation: number): AgentEvent {
  return {
    type: 'server.state',
    previous: 'offline',
    commandId: null,
    report: {
      serverId,
      generation,
      power: 'offline',
      uptimeMs: null,
      pid: null,
      activity: null,
      installed: false,
      installError: null,
      reason: null,
      lastExit: null,
      crash: { count: 0, crashed: false, nextRestartMs: null },
      console: { epoch: '', first: 1, last: 0 },
    },
  }
}

function command(id: string): CommandRecord {
  return {
    id,
    serverId: 'srv_a',
    generation: 1,
    command: { op: 'stop' },
    state: 'accepted',
    result: null,
    atMs: systemClock.nowMs(),
  }
}

describe('the journal', () => {
  it('gives back what was written, with the same identity and the next number', async () => {
    const first = await open()
    const spec = gameSpec('srv_a', 4)
    await first.write({
      spec,
      facts: { serverId: 'srv_a', facts: { ...freshFacts(), generation: 4, crashes: [1, 2] } },
    })
    await first.write({ command: command('cmd_1'), events: [done('cmd_0')] })
    await first.close()
    const second = await open()
    expect(second.journalId).toBe(first.journalId)
    expect(second.servers().get('srv_a')).toMatchObject({ spec, facts: { generation: 4, crashes: [1, 2] } })
    expect(second.unfinished().map(({ id }) => id)).toEqual(['cmd_1'])
    expect(second.outbox.next(0)).toMatchObject({ seq: 1, event: { commandId: 'cmd_0' } })
    await second.write({ events: [done('cmd_1')] })
    expect(second.outbox.lastSeq).toBe(2)
    second.acknowledge(2)
    await second.close()
    const third = await open()
    expect(third.outbox.next(0)).toBeUndefined()
    expect(third.outbox.lastSeq).toBe(2)
    await third.close()
    expect((await stat(file())).mode & 0o077).toBe(0)
  })

  async function survives(numRuns: number): Promise<void> {
    const ids = Array.from({ length: 12 }, (_, i) => `cmd_${i}`)
    const journal = await open()
    for (const id of ids) await journal.write({ command: command(id), events: [done(id)] })
    await journal.close()
    const written = await readFile(file())
    const whole = written.subarray(0, written.lastIndexOf(10) + 1)
    const lineEnds = [...whole.entries()].filter(([, byte]) => byte === 10).map(([at]) => at)
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: (lineEnds[0] ?? 0) + 1, max: whole.length }),
        fc.uint8Array({ maxLength: 40 }),
        fc.constantFrom(0, 5000),
        async (cut, noise, reserve) => {
          await writeFile(file(), whole)
          await truncate(file(), cut)
          await appendFile(file(), noise)
          await appendFile(file(), Buffer.alloc(reserve))
          const kept = lineEnds.filter((at) => at < cut).length
          const read = await open()
          expect(read.journalId).toBe(journal.journalId)
          // The head is the first line; commands and events take turns behind it.
          const commands = ids.filter((id) => read.command(id) !== undefined)
          expect(commands).toEqual(ids.slice(0, Math.ceil((kept - 1) / 2)))
          const events = read.outbox.all().map(({ seq }) => seq)
          expect(events).toEqual(Array.from({ length: Math.floor((kept - 1) / 2) }, (_, i) => i + 1))
          await read.write({ events: [done('cmd_after')] })
          await read.close()
          const again = await open()
          expect(again.outbox.lastSeq).toBe(events.length + 1)
          await again.close()
        },
      ),
      { numRuns },
    )
  }

  it('survives a tail that is cut or garbled at any byte, and keeps every line before it', () => survives(15), 30_000)

  it('survives hundreds of such tails', { tags: ['long'], timeout: 120_000 }, () => survives(300))

  it('leaves out a damaged line in the middle and keeps those behind it', async () => {
    const journal = await open()
    for (const id of ['cmd_1', 'cmd_2', 'cmd_3']) await journal.write({ command: command(id) })
    await journal.close()
    const text = await readFile(file(), 'utf8')
    await writeFile(file(), text.replace('"id":"cmd_2"', '"id":"cmd_9"'))
    const read = await open()
    expect(read.unfinished().map(({ id }) => id)).toEqual(['cmd_1', 'cmd_3'])
    await read.close()
  })

  it('begins anew, under another identity, when its head is lost', async () => {
    const journal = await open()
    await journal.write({ command: command('cmd_1') })
    await journal.close()
    const text = await readFile(file(), 'utf8')
    await writeFile(file(), text.slice(5))
    const read = await open()
    expect(read.journalId).not.toBe(journal.journalId)
    await read.close()
  })

  it('drops at its cap only state events that a newer one of the same server has replaced', async () => {
    const journal = await open(20_000)
    await journal.write({ events: [done('cmd_kept'), state('srv_quiet', 1)] })
    for (let generation = 1; generation <= 200; generation++)
      await journal.write({ events: [state('srv_loud', generation)] })
    const kept = journal.outbox.all()
    expect(JSON.stringify(kept).length).toBeLessThan(40_000)
    expect(kept[0]?.event).toMatchObject({ type: 'command.done', commandId: 'cmd_kept' })
    expect(kept[1]?.event).toMatchObject({ report: { serverId: 'srv_quiet' } })
    expect(kept.at(-1)).toMatchObject({ seq: 202, event: { report: { serverId: 'srv_loud', generation: 200 } } })
    await journal.close()
    const again = await open(20_000)
    expect(again.outbox.all().map(({ seq }) => seq)).toEqual(kept.map(({ seq }) => seq))
    await again.close()
  })

  it('stays small when much is written and acknowledged', async () => {
    const journal = await open()
    const big = 'x'.repeat(100_000)
    for (let i = 0; i < 150; i++) {
      await journal.write({
        facts: { serverId: 'srv_a', facts: { ...freshFacts(), reason: big } },
        events: [done(`cmd_${i}`)],
      })
      journal.acknowledge(journal.outbox.lastSeq)
    }
    await journal.close()
    expect((await stat(file())).size).toBeLessThan(6 * 1024 * 1024)
  })

  it('offers an event for sending only once it is on the disk', async () => {
    const journal = await open()
    const written = journal.write({ events: [done('cmd_1')] })
    expect(journal.outbox.lastSeq).toBe(1)
    expect(journal.outbox.next(0)).toBeUndefined()
    await written
    expect(journal.outbox.next(0)?.seq).toBe(1)
    await journal.close()
  })

  it.skipIf(disk === undefined)(
    `takes what ends a server on a full disk, behind all that came before it, and the rest when there is room${NO_DISK}`,
    async () => {
      await rm(folder, { recursive: true })
      folder = await mkdtemp(join(disk?.folder ?? '', 'journal-'))
      const journal = await open()
      for (const id of ['srv_a', 'srv_b']) {
        await journal.write({ spec: gameSpec(id, 1), facts: { serverId: id, facts: freshFacts() } })
      }
      await disk?.fill()
      const order = (id: string, serverId: string, op: 'stop' | 'kill'): CommandRecord => {
        return { ...command(id), serverId, command: { op } }
      }
      // What is of no urgency is taken until only the reserve is left.
      let reported = 0
      const tell = (): Promise<void> => journal.write({ events: [state('srv_b', ++reported)] })
      for (let late = false; !late; ) {
        const wrote = tell().then(() => false)
        late = await Promise.race([wrote, systemClock.sleep(500).then(() => true)])
      }
      const behind = journal.write({ facts: { serverId: 'srv_b', facts: { ...freshFacts(), generation: 7 } } })
      for (let i = 0; i < 100; i++) {
        await journal.write({ command: order(`cmd_${i}`, 'srv_a', i % 2 === 0 ? 'stop' : 'kill') })
        const ended = { ...order(`cmd_${i}`, 'srv_a', 'stop'), command: null, state: 'done' as const }
        await journal.write({ command: ended, events: [done(`cmd_${i}`)] })
      }
      await behind
      const before = tell()
      await journal.write({ command: order('cmd_open', 'srv_a', 'stop') })
      await before
      const after = tell()

      // As after a crash: what was promised is there, in a file that another journal goes on with on the full disk.
      const second = await open()
      expect(second.unfinished().map(({ id }) => id)).toEqual(['cmd_open'])
      expect(second.servers().get('srv_b')?.facts.generation).toBe(7)
      expect(second.outbox.lastSeq).toBe(reported - 1 + 100)
      await second.write({ command: { ...order('cmd_open', 'srv_a', 'stop'), command: null, state: 'done' } })
      await second.close()
      await disk?.clear()
      await after
      await journal.close()
    },
  )

  it('forgets a deleted server but remembers its generation', async () => {
    const journal = await open()
    await journal.write({ spec: gameSpec('srv_a', 3), facts: { serverId: 'srv_a', facts: freshFacts() } })
    await journal.write({ gone: { serverId: 'srv_a', generation: 3 } })
    await journal.close()
    const again = await open()
    expect(again.servers().size).toBe(0)
    expect(again.goneGeneration('srv_a')).toBe(3)
    await again.close()
  })
})
