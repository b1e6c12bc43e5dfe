import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  type Db,
  type How,
  isForeignKeyViolation,
  openDb,
  type Queries,
  type Tx,
  uniqueViolation,
} from '../../../src/daemon/db/db.ts'
import { migrate } from '../../../src/daemon/db/migrations.ts'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { recordStatements } from '../../faulty-driver.ts'
import { type TestClock, testClock } from './test-clock.ts'

let folder: string
let clock: TestClock
let db: Db
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-db-'))
  clock = testClock()
  await migrate(join(folder, 'panel.db'))
  db = await openDb(join(folder, 'panel.db'), clock)
})
afterEach(async () => {
  await db.close()
  await rm(folder, { recursive: true })
})

const put = (tx: Tx, key: string, value = '1') =>
  tx.q.insertInto('setting').values({ key, value, updatedAt: tx.now }).execute()
const keys = async (q: Queries = db.read): Promise<string[]> =>
  (await q.selectFrom('setting').select('key').orderBy('key').execute()).map(({ key }) => key)
const location = (tx: Tx, id: string, name: string) =>
  tx.q.insertInto('location').values({ id, name, description: null, createdAt: tx.now, updatedAt: tx.now }).execute()

describe('writes', () => {
  it('of 500 at a time are all there, and their hooks run in the order of the calls', async () => {
    const order: number[] = []
    const numbers = Array.from({ length: 500 }, (_, i) => i)
    const work = (i: number) => async (tx: Tx) => {
      await put(tx, `key ${String(i).padStart(3, '0')}`)
      tx.onCommit(() => order.push(i))
      return i * 2
    }
    expect(await Promise.all(numbers.map((i) => db.write(work(i))))).toEqual(numbers.map((i) => i * 2))
    expect(order).toEqual(numbers)
    expect(await keys()).toEqual(numbers.map((i) => `key ${String(i).padStart(3, '0')}`))
  })

  it('are stored and answered when a hook of them fails, which is reported as a bug, and hold up no others', async () => {
    const bugs: unknown[] = []
    const listeners = process.listeners('unhandledRejection')
    process.removeAllListeners('unhandledRejection').on('unhandledRejection', (error) => bugs.push(error))
    try {
      const done: string[] = []
      const work = (key: string, fails: boolean) => async (tx: Tx) => {
        await put(tx, key)
        if (fails)
          tx.onCommit(() => {
            throw new Error(`a hook of ${key}`)
          })
        tx.onCommit(() => done.push(key))
        return key
      }
      const together = [db.write(work('a', true)), db.write(work('b', false)), db.write(work('c', true))]
      expect(await Promise.all(together)).toEqual(['a', 'b', 'c'])
      expect(await db.write(work('d', false))).toBe('d')
      expect(done).toEqual(['a', 'b', 'c', 'd'])
      expect(await keys()).toEqual(['a', 'b', 'c', 'd'])
      expect(bugs).toEqual([new Error('a hook of a'), new Error('a hook of c')])
    } finally {
      process.removeAllListeners('unhandledRejection')
      for (const listener of listeners) process.on('unhandledRejection', listener)
    }
  })

  it('that fail undo themselves alone, and run no hook', async () => {
    const hooks: number[] = []
    const settled = await Promise.allSettled(
      Array.from({ length: 200 }, (_, i) =>
        db.write(async (tx) => {
          tx.onCommit(() => hooks.push(i))
          await put(tx, `key ${i}`)
          if (i % 3 === 0) throw new Error(`no ${i}`)
          if (i % 7 === 0) await put(tx, `key ${i}`)
        }),
      ),
    )
    const good = settled.flatMap(({ status }, i) => (status === 'fulfilled' ? [i] : []))
    expect(good).toEqual(Array.from({ length: 200 }, (_, i) => i).filter((i) => i % 3 !== 0 && i % 7 !== 0))
    expect(hooks).toEqual(good)
    expect(await keys()).toEqual(good.map((i) => `key ${i}`).sort())
    expect(settled[3]).toMatchObject({ status: 'rejected', reason: new Error('no 3') })
  })

  it('that read before they write undo themselves alone too, and those that write more than one thing at once', async () => {
    const settled = await Promise.allSettled(
      Array.from({ length: 200 }, (_, i) =>
        db.write(async (tx) => {
          const before = await keys(tx.q)
          await Promise.all([put(tx, `a ${i}`), put(tx, `b ${i}`), ...(i % 5 === 0 ? [put(tx, `a ${i}`)] : [])])
          if (i % 3 === 0) throw new Error(`no ${i}`)
          return before.length
        }),
      ),
    )
    const good = settled.flatMap((one, i) => (one.status === 'fulfilled' ? [{ i, before: one.value }] : []))
    expect(good.map(({ i }) => i)).toEqual(Array.from({ length: 200 }, (_, i) => i).filter((i) => i % 3 && i % 5))
    expect(good.map(({ before }) => before)).toEqual(good.map((_, place) => 2 * place))
    expect(await keys()).toEqual(good.flatMap(({ i }) => [`a ${i}`, `b ${i}`]).sort())
  })

  it('that come while others are carried out are in the same commit, and undo themselves alone', async () => {
    const driver = recordStatements()
    const late: Promise<string>[] = []
    const add = (key: string, ...then: (() => Promise<void>)[]): Promise<void> =>
      db.write(async (tx) => {
        await put(tx, key)
        for (const work of then) late.push(work().then(() => 'stored', String))
        if (key.startsWith('bad')) throw new Error(key)
        await put(tx, `${key} too`)
      })
    await add(
      'a',
      () => add('bad b', () => add('c')),
      () => add('d'),
    )
    driver.remove()
    expect((await Promise.all(late)).sort()).toEqual(['Error: bad b', 'stored', 'stored'])
    expect(await keys()).toEqual(['a', 'a too', 'c', 'c too', 'd', 'd too'])
    expect(driver.texts.filter((text) => text === 'COMMIT')).toHaveLength(1)
  })

  it('that come one behind the other do not hold up the first', async () => {
    const started: number[] = []
    const done: number[] = []
    const late: Promise<void>[] = []
    const add = (i: number): Promise<void> =>
      db
        .write(async (tx) => {
          started.push(i)
          if (i < 300) late.push(add(i + 1))
          await put(tx, `key ${i}`)
        })
        .then(() => void done.push(started.length))
    await add(0)
    expect(done[0]).toBeLessThanOrEqual(64)
    while (done.length < 301) await Promise.all(late)
    expect((await keys()).length).toBe(301)
  })

  it('that come when a commit has been open for 20 ms are in the next one', async () => {
    const driver = recordStatements()
    const late: Promise<unknown>[] = []
    await db.write(async (tx) => {
      await put(tx, 'a')
      clock.advance(20)
      late.push(db.write((next) => put(next, 'b')))
    })
    await Promise.all(late)
    driver.remove()
    expect(driver.texts.filter((text) => text === 'COMMIT')).toHaveLength(2)
  })

  it('that are to be last of a commit see what others of it have written, and have their turn in each', async () => {
    const order: string[] = []
    const add = (key: string, how: How = {}, then?: () => void) =>
      db.write(async (tx) => {
        order.push(`${key} sees ${(await keys(tx.q)).length}`)
        await put(tx, key)
        then?.()
      }, how)
    const late: Promise<void>[] = []
    await Promise.all([add('x', { isLast: true }, () => late.push(add('y'))), add('a', {}, () => late.push(add('b')))])
    await Promise.all(late)
    expect(order).toEqual(['a sees 0', 'b sees 1', 'x sees 2', 'y sees 3'])
  })

  it('see each other: 100 that read and add lose none', async () => {
    await db.write((tx) => put(tx, 'count', '0'))
    const add = async (tx: Tx): Promise<void> => {
      const row = await tx.q.selectFrom('setting').select('value').where('key', '=', 'count').executeTakeFirstOrThrow()
      await Promise.resolve()
      await tx.q
        .updateTable('setting')
        .set({ value: String(Number(row.value) + 1) })
        .where('key', '=', 'count')
        .execute()
    }
    await Promise.all(Array.from({ length: 100 }, () => db.write(add)))
    expect(await db.read.selectFrom('setting').select('value').execute()).toEqual([{ value: '100' }])
  })

  it('are on disk when they are answered, for every reader', async () => {
    for (let i = 0; i < 50; i++) {
      await db.write((tx) => put(tx, `key ${i}`))
      const seen = await Promise.all([keys(), keys(), keys()])
      expect(seen.map((list) => list.length)).toEqual([i + 1, i + 1, i + 1])
    }
  })

  it('inside a write are undone after 10 s instead of waiting for ever', async () => {
    const nested = db.write(async (tx) => {
      await put(tx, 'outer')
      await db.write((inner) => put(inner, 'inner'))
    })
    const refused = expect(nested).rejects.toThrow('or for another one')
    while (clock.sleepers() === 0) await systemClock.sleep(1)
    clock.advance(10_000)
    await refused
    expect(await keys()).not.toContain('outer')
  })

  it('that wait for something else than the database are undone after 10 s, and can write no more', async () => {
    const gate = openable()
    const late: Promise<unknown>[] = []
    const slow = db.write(async (tx) => {
      await put(tx, 'before')
      await gate.opened
      const after = put(tx, 'after')
      late.push(after.catch((error: unknown) => error))
      await after
    })
    const refused = expect(slow).rejects.toThrow('took longer than 10 s')
    const next = db.write((tx) => put(tx, 'next'))
    while (clock.sleepers() === 0) await systemClock.sleep(1)
    clock.advance(10_000)
    await refused
    await next
    gate.open()
    while (late.length === 0) await systemClock.sleep(1)
    expect(await Promise.all(late)).toEqual([expect.objectContaining({ message: expect.stringContaining('over') })])
    expect(await keys()).toEqual(['next'])
  })

  it('are looked after by one timer, only while there are any', async () => {
    await db.write((tx) => put(tx, 'first'))
    await expect.poll(() => clock.sleepers()).toBe(1)
    await expect
      .poll(() => {
        clock.advance(10_000)
        return clock.sleepers()
      })
      .toBe(0)
    const stuck = expect(db.write(() => new Promise(() => undefined))).rejects.toThrow('took longer than 10 s')
    await expect.poll(() => clock.sleepers()).toBe(1)
    clock.advance(10_000)
    await stuck
    await db.close()
    expect(clock.sleepers()).toBe(0)
    db = await openDb(join(folder, 'panel.db'), clock)
  })

  it('that follow one which was undone are as safe from other programs as it', async () => {
    const other = await Connection.open(join(folder, 'panel.db'), 'existing')
    const insert = "insert into setting (key, value, updated_at) values ('foreign', '1', '')"
    const first = db.write(async (tx) => {
      await put(tx, 'undone')
      throw new Error('undone')
    })
    let foreign: unknown
    const second = db.write(async (tx) => {
      foreign = await other.run(insert).catch((error: unknown) => error)
      await put(tx, 'second')
    })
    await expect(first).rejects.toThrow('undone')
    await second
    expect(foreign).toMatchObject({ code: 'SQLITE_BUSY' })
    await other.close()
    expect(await keys()).toEqual(['second'])
  })

  it('cannot go on after they were answered', async () => {
    let kept: Tx | undefined
    await db.write(async (tx) => {
      kept = tx
      await put(tx, 'inside')
    })
    await expect(kept === undefined ? undefined : put(kept, 'outside')).rejects.toThrow('over')
    expect(await keys()).toEqual(['inside'])
  })

  it('all have one time in one transaction', async () => {
    const times = await db.write(async (tx) => {
      const first = tx.now
      clock.advance(5000)
      return [first, tx.now]
    })
    expect(times[0]).toBe(times[1])
  })

  it('are refused once the database closes, and those before are kept', async () => {
    const before = Array.from({ length: 20 }, (_, i) => db.write((tx) => put(tx, `key ${i}`)))
    const closing = db.close()
    await expect((async () => db.write((tx) => put(tx, 'late')))()).rejects.toMatchObject({ code: 'SHUTTING_DOWN' })
    await Promise.all([...before, closing])
    db = await openDb(join(folder, 'panel.db'), clock)
    expect(await keys()).toHaveLength(20)
  })
})

describe('reads', () => {
  it('that go on while the database closes do not keep it open, and are refused from then on', async () => {
    const refusals: unknown[] = []
    const isAsking = { now: true }
    const ask = async (nth: number): Promise<void> => {
      for (let i = 0; isAsking.now; i++) {
        // Each a statement that was not prepared before.
        const query = db.read
          .selectFrom('setting')
          .select('key')
          .where('key', '=', 'x')
          .limit(nth * 1_000_000 + i)
        await query.execute().catch((error: unknown) => {
          isAsking.now = false
          refusals.push(error)
        })
      }
    }
    const asking = [1, 2, 3, 4].map(ask)
    await db.read.selectFrom('setting').select('key').execute()
    await db.close()
    await Promise.all(asking)
    for (const refusal of refusals) expect(refusal).toMatchObject({ code: 'SHUTTING_DOWN' })
    expect(refusals.length).toBeGreaterThan(0)
    db = await openDb(join(folder, 'panel.db'), clock)
  })
})

describe('a broken constraint', () => {
  it('names table and column of what is taken', async () => {
    await db.write((tx) => location(tx, 'loc_1', 'Bonn'))
    const taken = await db.write((tx) => location(tx, 'loc_2', 'Bonn')).catch((error: unknown) => error)
    expect(uniqueViolation(taken)).toBe('location.name')
    expect(isForeignKeyViolation(taken)).toBe(false)
  })

  it('tells a reference to nothing', async () => {
    const dangling = await db
      .write(({ q, now }) =>
        q
          .insertInto('allocation')
          .values({
            id: 'a',
            nodeId: 'none',
            serverId: null,
            ip: 'i',
            port: 1,
            alias: null,
            notes: null,
            createdAt: now,
            updatedAt: now,
          })
          .execute(),
      )
      .catch((error: unknown) => error)
    expect(isForeignKeyViolation(dangling)).toBe(true)
    expect(uniqueViolation(dangling)).toBeUndefined()
    expect([uniqueViolation('x'), isForeignKeyViolation(undefined)]).toEqual([undefined, false])
  })

  it('is that of one row when 50 want the same name at once', async () => {
    const all = Array.from({ length: 50 }, (_, i) => db.write((tx) => location(tx, `loc_${i}`, 'Bonn')))
    const settled = await Promise.allSettled(all)
    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })
})

describe('reading', () => {
  it('cannot write', async () => {
    await expect(
      db.read
        .insertInto('setting')
        .values({ key: 'k', value: '1', updatedAt: '' as never })
        .execute(),
    ).rejects.toThrow(/readonly|read-only|query_only/i)
  })
})

describe('the first work of a scope', () => {
  it('is part of its first write that holds, once', async () => {
    const firsts: string[] = []
    await db.withFirst(
      async (tx) => {
        await put(tx, `first ${firsts.push('x')}`)
      },
      async () => {
        await db.write(() => Promise.reject(new Error('no'))).catch(() => undefined) // refused on purpose
        await db.write((tx) => put(tx, 'one'))
        await db.write((tx) => put(tx, 'two'))
      },
    )
    expect(await keys()).toEqual(['first 2', 'one', 'two'])
  })

  it('does not come into the writes of others that share its commit, nor into what they set off', async () => {
    const { opened, open } = openable()
    const refused = db.withFirst(
      (tx) => put(tx, 'first').then(() => undefined),
      () => db.write(() => Promise.reject(new Error('no'))).catch(() => opened), // refused on purpose
    )
    const setOff: Promise<unknown>[] = []
    const other = db.write(async (tx) => {
      await put(tx, 'other')
      tx.onCommit(() => setOff.push(db.write((later) => put(later, 'set off'))))
    })
    await other
    await Promise.all(setOff)
    open()
    await refused
    expect(await keys()).toEqual(['other', 'set off'])
  })

  it('is no part of what its own commit sets off', async () => {
    const setOff: Promise<unknown>[] = []
    await db.withFirst(
      (tx) => put(tx, 'first').then(() => undefined),
      () =>
        db.write(async (tx) => {
          await put(tx, 'own')
          tx.onCommit(() => setOff.push(db.write((later) => put(later, 'set off'))))
        }),
    )
    await Promise.all(setOff)
    expect(await keys()).toEqual(['first', 'own', 'set off'])
  })

  it('ends with the scope: what goes on behind it writes for itself', async () => {
    const { opened, open } = openable()
    let behind: Promise<unknown> = Promise.resolve()
    await db.withFirst(
      (tx) => put(tx, 'first').then(() => undefined),
      async () => {
        behind = opened.then(() => db.write((tx) => put(tx, 'behind')))
      },
    )
    const { opened: inside, open: letGo } = openable()
    // Another scope, so that contexts are in use while the first one's work goes on.
    const second = db.withFirst(
      (tx) => put(tx, 'second').then(() => undefined),
      () => inside,
    )
    open()
    await behind
    letGo()
    await second
    expect(await keys()).toEqual(['behind'])
  })
})

function openable(): { opened: Promise<void>; open: () => void } {
  let open = (): void => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}
