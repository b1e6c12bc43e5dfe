import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { isNewer } from '../../src/daemon/features/operations/updates/version-order.ts'
import { checkUpdate, getUpdateState, getUpdateStatus } from '../../src/shared/api/updates.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import { signIn } from '../contract/world.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { ConsoleReader } from './console-reader.ts'
import { eventually } from './gateway-stage.ts'

const CURRENT = JSON.parse(await readFile(join(import.meta.dirname, '../../package.json'), 'utf8')).version as string // its own

/** The feed of the tests: answers as it is told. */
let feed: Server
let answer: RequestListener
let asked = 0
let url = ''
beforeAll(async () => {
  feed = createServer((request, response) => {
    asked += 1
    answer(request, response)
  })
  await new Promise<void>((resolve) => feed.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(feed.address() as AddressInfo).port}/panel` // a TCP listener has one
})
afterAll(() => {
  feed.closeAllConnections()
  feed.close()
})

const says =
  (body: unknown, status = 200): RequestListener =>
  (_, response) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))

describe('a panel with a feed', () => {
  let ahead = 0
  /** How long five seconds of waiting for a feed take. */
  let patience = 5000
  let panel: TestPanel
  beforeAll(async () => {
    const shifted = { nowMs: () => systemClock.nowMs() + ahead, monotonicMs: () => systemClock.monotonicMs() + ahead }
    const sleep = (ms: number, signal?: AbortSignal) => systemClock.sleep(ms === 5000 ? patience : ms, signal)
    panel = await startPanel({ clock: { ...systemClock, ...shifted, sleep }, env: { PANEL_UPDATES__FEED_URL: url } })
  })
  afterAll(() => panel.close())
  afterEach(() => {
    ahead += 6 * 60_000 // what was answered is not fresh any more
  })

  const status = () => panel.client.call(getUpdateStatus)

  it.each([
    ['the document of a package', { 'dist-tags': { latest: '99.1.0' }, time: { '99.1.0': '2026-01-02T03:04:05Z' } }],
    [
      'a release of a forge',
      { tag_name: 'v99.1.0', html_url: 'https://example.org/r', published_at: '2026-01-02T03:04:05Z' },
    ],
    ['a plain answer', { version: '99.1.0', releaseUrl: 'https://example.org/r', publishedAt: '2026-01-02T03:04:05Z' }],
  ])('reads %s', async (_, body) => {
    answer = says(body)
    expect(await status()).toMatchObject({
      currentVersion: CURRENT,
      latestVersion: '99.1.0',
      updateAvailable: true,
      checkError: null,
      publishedAt: '2026-01-02T03:04:05.000Z',
      releaseUrl: 'dist-tags' in body ? null : 'https://example.org/r',
      autoUpdateEnabled: false,
    })
  })

  it.each(['0.0.1', CURRENT])('offers nothing when %s is the newest', async (version) => {
    answer = says({ version })
    expect(await status()).toMatchObject({ latestVersion: version, updateAvailable: false })
  })

  it('asks once in five minutes, whoever wants to know', async () => {
    answer = says({ version: '99.0.0' })
    const before = asked
    const { token } = await signIn(panel, 'curious')
    const views = await Promise.all([status(), status(), panel.as(token).call(checkUpdate)])
    expect(asked).toBe(before + 1)
    expect(Object.keys(views[2]).sort()).toEqual(['currentVersion', 'isDocker', 'latestVersion', 'updateAvailable'])
    ahead += 4 * 60_000
    await status()
    expect(asked).toBe(before + 1)
    ahead += 61_000
    await status()
    expect(asked).toBe(before + 2)
  })

  it.each<[string, RequestListener, RegExp]>([
    ['answers with an error', says({}, 503), /answered with status 503/],
    ['sends no JSON', (_, response) => response.end('<html>'), /did not answer JSON/],
    ['names no version', says({ version: 'soon' }), /names no version/],
    ['leads elsewhere', (_, response) => response.writeHead(302, { location: '/other' }).end(), /could not be read/],
    ['says nothing', () => undefined, /did not answer within 5 s/],
    ['hangs up', (request) => request.socket.destroy(), /could not be read/],
    ['never ends', (_, response) => response.end(Buffer.alloc(5 * 1024 * 1024, ' ')), /more than 4 MiB/],
  ])('tells of a feed that %s that it is not known', async (_, listener, reason) => {
    answer = listener
    patience = reason.source.includes('within') ? 50 : 5000
    const known = await status()
    patience = 5000
    expect(known).toMatchObject({ latestVersion: null, updateAvailable: false, releaseUrl: null })
    expect(known.checkError).toMatch(reason)
    expect(known.lastCheckedAt).not.toBeNull()
  })

  it('gives a feed up that sends a byte now and then, whatever is collected meanwhile', async () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    let closed = (): void => undefined
    const over = new Promise<void>((resolve) => {
      closed = resolve
    })
    answer = (request, response) => {
      response.writeHead(200)
      const drip = setInterval(() => {
        response.write(' ')
        collect()
      }, 20)
      request.socket.on('close', () => {
        clearInterval(drip)
        closed()
      })
    }
    patience = 500
    const known = await status()
    patience = 5000
    expect(known).toMatchObject({ latestVersion: null, checkError: 'the update feed did not answer within 5 s' })
    await over
  })

  it.each(['javascript:alert(1)', 'https://', 'https://example.org@elsewhere.example/'])(
    'does not offer %s, which no browser should open',
    async (releaseUrl) => {
      answer = says({ version: '99.0.0', releaseUrl })
      expect((await status()).releaseUrl).toBeNull()
    },
  )

  it('offers an address as browsers read it, without characters that a terminal obeys', async () => {
    answer = says({ version: '99.0.0', releaseUrl: 'https://example.org/\u001b[2J\n\u202ex' })
    expect((await status()).releaseUrl).toBe('https://example.org/%1B[2J%E2%80%AEx')
  })

  it.each(['+275760-09-13T00:00:00Z', '-000100-01-01T00:00:00Z', 'soon'])(
    'knows of a release of %s not when it was published',
    async (publishedAt) => {
      answer = says({ version: '99.0.0', publishedAt })
      expect(await status()).toMatchObject({ latestVersion: '99.0.0', publishedAt: null })
    },
  )

  it('is checking as long as the feed has not answered', async () => {
    const state = () => panel.client.call(getUpdateState)
    let finish = (): void => undefined
    answer = (_, response) => {
      finish = () => response.end(JSON.stringify({ version: '1.0.0' }))
    }
    expect(await state()).toMatchObject({ state: 'idle', progress: null, log: [] })
    const before = asked
    const waiting = status()
    await eventually(
      async () => asked,
      (now) => now > before,
    )
    expect(await state()).toMatchObject({ state: 'checking', finishedAt: null })
    finish()
    await waiting
    expect(await state()).toMatchObject({ state: 'idle' })
  })
})

describe('a panel without a feed', () => {
  it('asks nobody and says so; the first start of another version is a completed update, the next start is not', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'panel-test-'))
    try {
      const first = await startPanel({ dataDir })
      const before = asked
      expect(await first.client.call(getUpdateStatus)).toMatchObject({ latestVersion: null, lastCheckedAt: null })
      expect((await first.client.call(getUpdateStatus)).checkError).toContain('updates.feedUrl')
      expect(asked).toBe(before)
      expect(await first.client.call(getUpdateState)).toMatchObject({ state: 'idle' })
      await first.close()
      await pretendVersion(first.dataDir, '0.0.9')

      const second = await startPanel({ dataDir })
      const state = await second.client.call(getUpdateState)
      expect(state).toMatchObject({ state: 'completed', progress: 100, targetVersion: CURRENT, error: null })
      expect(state.log).toEqual([`0.0.9 → ${CURRENT}`])
      const [from, to] = [Date.parse(state.startedAt ?? ''), Date.parse(state.finishedAt ?? '')]
      expect(to).toBeGreaterThanOrEqual(from)
      expect(await announced(second)).toMatchObject({
        state: 'completed',
        previousVersion: '0.0.9',
        targetVersion: CURRENT,
      })
      await second.close()

      const third = await startPanel({ dataDir })
      expect(await third.client.call(getUpdateState)).toMatchObject({ state: 'idle' })
      await third.close()
    } finally {
      await rm(dataDir, { recursive: true, force: true })
    }
  })
})

/** Makes the database one that another version has left. */
async function pretendVersion(dataDir: string, version: string): Promise<void> {
  expect(await readdir(join(dataDir, 'db'))).toContain('panel.db')
  const file = await Connection.open(join(dataDir, 'db', 'panel.db'), 'existing')
  try {
    await file.run(`update setting set value = ? where key = 'install.version'`, [JSON.stringify(version)])
  } finally {
    await file.close()
  }
}

/** The event of the update, as one who follows from the start of the log gets it. */
async function announced(panel: TestPanel): Promise<unknown> {
  const live = new ConsoleReader(`${panel.url}/api/admin/events`, panel.adminToken)
  const marker = await live.until('the greeting', (reader) => reader.of('connected')[0])
  live.close()
  const epoch = String(marker.data['lastEventId']).split('-')[0]
  const headers = { 'last-event-id': `${epoch}-0` }
  const all = new ConsoleReader(`${panel.url}/api/admin/events?types=update_state_changed`, panel.adminToken, headers)
  try {
    return (await all.until('the update', (reader) => reader.of('update_state_changed')[0])).data
  } finally {
    all.close()
  }
}

it.each([
  ['1.0.1', '1.0.0'],
  ['1.10.0', '1.9.9'],
  ['2.0.0', '1.99.99'],
  ['v1.2.3', '1.2.2'],
  ['1.0.0', '1.0.0-rc.1'],
  ['1.0.0-rc.2', '1.0.0-rc.1'],
  ['1.0.0-rc.10', '1.0.0-rc.9'],
  ['1.0.0-rc.1', '1.0.0-beta'],
  ['1.0.0-alpha.1', '1.0.0-alpha'],
  ['1.0.0-alpha.beta', '1.0.0-alpha.1'],
])('%s is newer than %s, and not the other way round', (newer, older) => {
  expect([isNewer(newer, older), isNewer(older, newer), isNewer(newer, newer)]).toEqual([true, false, false])
})
