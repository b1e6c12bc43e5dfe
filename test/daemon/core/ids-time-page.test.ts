import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { hasNextPage } from '../../../src/cli/kit/resource/next-page.ts'
import { beforeIdsOf, ID_PREFIXES, type IdPrefix, newId, ServerId, uuidOf } from '../../../src/shared/kernel/ids.ts'
import { pageQuery, pagination } from '../../../src/shared/kernel/page.ts'
import { IsoTime, isoTime, parseDuration, systemClock } from '../../../src/shared/kernel/time.ts'
import { testClock } from './test-clock.ts'

describe('ids', () => {
  it('are unique, name their kind, sort by time and hold a UUID of version 7', () => {
    const clock = testClock()
    const made: string[] = []
    for (let i = 0; i < 2000; i++) {
      clock.advance(1)
      made.push(newId('srv', clock))
    }
    expect(new Set(made).size).toBe(2000)
    expect([...made].sort()).toEqual(made)
    for (const id of made) {
      expect(id).toMatch(/^srv_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
      expect(uuidOf(id)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      expect(ServerId.safeParse(id).success).toBe(true)
    }
  })

  it('carry the milliseconds at which they were made', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 47 }), fc.constantFrom(...Object.keys(ID_PREFIXES)), (ms, prefix) => {
        const id = newId(prefix as IdPrefix, { ...testClock(), nowMs: () => ms }) // a key of the table
        expect(Number.parseInt((uuidOf(id) ?? '').replace('-', '').slice(0, 12), 16)).toBe(ms)
      }),
    )
  })

  it('of one millisecond have a place before them that is behind all from before', () => {
    const made = (ms: number) => newId('cmd', { ...testClock(), nowMs: () => ms })
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 47 }), (ms) => {
        const place = beforeIdsOf('cmd', ms)
        expect(made(ms - 1) < place && place < made(ms)).toBe(true)
        expect(made(ms).startsWith(place)).toBe(true)
      }),
    )
  })

  it('of others are ids without a UUID', () => {
    for (const id of ['42', 'srv_x', 'imported-7', `srv_8${'0'.repeat(25)}`, `srv_${'u'.repeat(26)}`])
      expect(uuidOf(id)).toBeUndefined()
    for (const id of ['42', 'a_b-C']) expect(ServerId.safeParse(id).success).toBe(true)
    for (const id of ['', 'a b', 'a/b', 'x'.repeat(65), 'ä', 'a\n']) expect(ServerId.safeParse(id).success).toBe(false)
  })
})

describe('times', () => {
  it('are written with milliseconds in UTC and read back', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4_000_000_000_000 }), (ms) => {
        expect(IsoTime.parse(isoTime(ms))).toBe(isoTime(ms))
        expect(Date.parse(isoTime(ms))).toBe(ms)
      }),
    )
    for (const text of [
      '2026-01-01',
      '2026-01-01T00:00:00Z',
      '2026-01-01T00:00:00.000+01:00',
      '2026-13-01T00:00:00.000Z',
    ]) {
      expect(IsoTime.safeParse(text).success).toBe(false)
    }
  })

  it('of durations are those that people write', () => {
    const known = {
      '90': 90_000,
      '1.5': 1500,
      '500ms': 500,
      '30s': 30_000,
      '10m': 600_000,
      '2h': 7_200_000,
      '7d': 604_800_000,
      '1h30m': 5_400_000,
    }
    for (const [text, ms] of Object.entries(known)) expect([text, parseDuration(text)]).toEqual([text, ms])
    for (const text of ['', 'x', '-1', '1 h', 'h', '1w', '1e3', '0x10']) expect(parseDuration(text)).toBeUndefined()
  })
})

describe('pages', () => {
  it('hold every row once', () => {
    fc.assert(
      fc.property(fc.nat(5000), fc.integer({ min: 1, max: 300 }), (total, limit) => {
        const query = pageQuery().parse({ limit: String(limit) })
        const { totalPages } = pagination(query, total)
        expect(query.limit).toBe(Math.min(limit, 100))
        expect(totalPages * query.limit).toBeGreaterThanOrEqual(total)
        expect(Math.max(0, totalPages - 1) * query.limit).toBeLessThanOrEqual(Math.max(0, total - 1))
      }),
    )
  })

  it('tell totals exactly up to 10,000, and that there are more above', () => {
    const query = { page: 1, limit: 50 }
    expect(pagination(query, 10_000)).toEqual({ page: 1, limit: 50, total: 10_000, totalPages: 200 })
    const capped = { page: 1, limit: 50, total: 10_000, totalPages: 200, totalIsCapped: true } as const
    expect(pagination(query, 10_001)).toEqual(capped)
    expect([hasNextPage({ ...capped, page: 300 }, 50), hasNextPage({ ...capped, page: 300 }, 49)]).toEqual([
      true,
      false,
    ])
    const known = pagination({ page: 200, limit: 50 }, 10_000)
    expect([hasNextPage({ ...known, page: 199 }, 50), hasNextPage(known, 50)]).toEqual([true, false])
  })
})

it('sleeps for longer than a timer of Node can be', async () => {
  vi.useFakeTimers()
  try {
    const day = 86_400_000
    let isOver = false
    const slept = systemClock.sleep(60 * day).then(() => {
      isOver = true
    })
    await vi.advanceTimersByTimeAsync(60 * day - 1)
    expect(isOver).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    await slept
    const ends = new AbortController()
    const cut = systemClock.sleep(60 * day, ends.signal)
    await vi.advanceTimersByTimeAsync(30 * day)
    ends.abort()
    await cut
    expect(vi.getTimerCount()).toBe(0)
  } finally {
    vi.useRealTimers()
  }
})
