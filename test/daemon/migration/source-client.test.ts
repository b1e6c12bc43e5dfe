import { createHash } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { openSource } from '../../../src/daemon/features/operations/migration/source/open-source.ts'
import type { Source, SourceFailure } from '../../../src/daemon/features/operations/migration/source/source.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { importEgg } from '../../../src/shared/templates/egg-import.ts'
import type { FailKind } from '../../migration-source/options.ts'
import { type SourceSimulator, startSource } from '../../migration-source/source-simulator.ts'

const signal = new AbortController().signal
/** As long as they need to be here, and no longer. */
const waits = { firstRetry: 2, mostRetry: 10, silence: 500, answer: 2000 }
const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()))
})

async function simulator(options: Parameters<typeof startSource>[0] = {}): Promise<SourceSimulator> {
  const running = await startSource(options)
  closing.push(() => running.close())
  return running
}

async function opened(
  at: { readonly url: string; readonly keys?: SourceSimulator['keys'] },
  keys: { readonly key?: string; readonly clientKey?: string } = {},
): Promise<Source> {
  const key = keys.key ?? at.keys?.account ?? 'ptla_none'
  const access = { url: at.url, key, clientKey: keys.clientKey ?? null, isInsecure: false }
  const source = await openSource(access, { clock: systemClock, waits }, signal)
  closing.push(() => source.close())
  return source
}

/** Something that is no source, at a free port. */
async function answering(listener: RequestListener): Promise<{ readonly url: string }> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(async () => {
    const closed = new Promise((resolve) => server.close(resolve))
    server.closeAllConnections()
    await closed
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

async function failureOf(work: Promise<unknown>): Promise<SourceFailure> {
  return await work.then(
    () => expect.fail('nothing failed'),
    (error: unknown) => error as SourceFailure,
  )
}

async function serverNamed(source: Source, id: number) {
  const server = await source.server(String(id), signal)
  if (server === undefined) throw new Error(`no server ${id}`)
  return server
}

describe('what is read of a source', () => {
  it.each(['pterodactyl', 'pelican'] as const)('is everything that it has: %s', async (flavor) => {
    const running = await simulator({ flavor })
    const { world } = running
    const source = await opened(running)
    expect(source.flavor).toBe(flavor)
    const lists = {
      locations: await source.locations(signal),
      eggs: await source.eggs(signal),
      nodes: await source.nodes(signal),
      users: await source.users(signal),
      servers: await source.servers(signal),
    }
    expect(Object.values(lists).flatMap(({ unreadable }) => unreadable)).toEqual([])
    const ids = (rows: readonly { readonly id: string | number }[]) => rows.map(({ id }) => String(id))
    expect(ids(lists.locations.items)).toEqual(flavor === 'pelican' ? [] : ids(world.locations))
    expect(ids(lists.eggs.items)).toEqual(ids(world.eggs))
    expect(ids(lists.nodes.items)).toEqual(ids(world.nodes))
    expect(ids(lists.users.items)).toEqual(ids(world.users))
    expect(ids(lists.servers.items)).toEqual(ids(world.servers))
    expect(lists.users.items.map(({ email }) => email)).toEqual(world.users.map(({ email }) => email.toLowerCase()))

    for (const [at, server] of lists.servers.items.entries()) {
      const row = world.servers[at]
      const names = Object.keys(row?.environment ?? {})
      expect(Object.keys(server.environment).toSorted()).toEqual(names.toSorted())
      expect(server).toMatchObject({
        uuid: row?.uuid,
        ownerId: String(row?.ownerId),
        state: row?.status ?? 'ready',
        limits: { memoryMb: row?.limits.memory, threads: row?.limits.threads, isOomKillerOff: row?.oomDisabled },
        featureLimits: row?.featureLimits,
      })
      const own = world.allocations.filter(({ serverId }) => serverId === row?.id)
      expect(server.allocations?.map(({ ip, port }) => ({ ip, port }))).toEqual(
        own.map(({ ip, port }) => ({ ip, port })),
      )
      expect(server.allocations?.filter(({ isPrimary }) => isPrimary)).toHaveLength(1)
      expect(server.subusers?.map(({ permissions }) => permissions)).toEqual(
        row?.subusers.map(({ permissions }) => permissions),
      )
      const databases = await source.databases(server, signal)
      expect(databases.items.map(({ name, password }) => ({ name, password }))).toEqual(
        row?.databases.map(({ database, password }) => ({ name: database, password })),
      )
      if (server.isSuspended) continue
      const schedules = await source.schedules(server, signal)
      expect(schedules.unreadable).toEqual([])
      expect(schedules.items.map(({ name, cron, tasks }) => ({ name, cron, tasks: tasks.length }))).toEqual(
        row?.schedules.map(({ name, cron, tasks }) => ({ name, cron, tasks: tasks.length })),
      )
      const backups = await source.backups(server, signal)
      expect(backups.items.map(({ uuid }) => uuid)).toEqual(row?.backups.map(({ uuid }) => uuid))
      for (const { state, sha1 } of backups.items)
        expect({ state, sha1 }).toEqual({ state: 'good', sha1: expect.any(String) })
    }
  })

  it('has eggs that templates can be made of, with what they inherit', async () => {
    const source = await opened(await simulator())
    const { items } = await source.eggs(signal)
    const templates = items.map(({ document }) => importEgg(document).template)
    expect(templates.map(({ name }) => name)).toEqual(items.map(({ name }) => name))
    const [parent, child] = items
    expect(child?.document['scripts']).toEqual(parent?.document['scripts'])
    expect(child?.document['config']).toMatchObject({ stop: 'stop', startup: { done: 'Done (' } })
    expect((await source.nests(signal)).items.map(({ id }) => id)).toEqual(['1', '2'])
  })

  it.each([
    ['pterodactyl', { kind: 'nest', id: '1' }],
    ['pelican', { kind: 'egg', id: null }],
  ] as const)('lacks only the egg that the source itself cannot show: %s', async (flavor, list) => {
    const source = await opened(await simulator({ flavor, poisonEgg: true }))
    expect(source.flavor).toBe(flavor)
    expect(await source.probe(signal)).toMatchObject({ missing: [], reads: { egg: 'yes' } })
    const { items, unreadable } = await source.eggs(signal)
    expect(items.map(({ id }) => id).toSorted()).toEqual(['1', '2', '3', '4'])
    expect(unreadable).toEqual([expect.objectContaining({ kind: 'egg', id: '5' }), expect.objectContaining(list)])
    expect((await source.servers(signal)).items).toHaveLength(12)
  })

  it.each(['pterodactyl', 'pelican'] as const)('names owners that are no longer there: %s', async (flavor) => {
    const source = await opened(await simulator({ flavor, danglingOwners: 2 }))
    const users = new Set((await source.users(signal)).items.map(({ id }) => id))
    const { items, unreadable } = await source.servers(signal)
    expect(unreadable).toEqual([])
    expect(items.filter(({ ownerId }) => !users.has(ownerId)).map(({ id }) => id)).toEqual(['1', '2'])
  })

  it('says of a broken row which one it is, and has the others', async () => {
    const at = await simulator({
      customize: ({ users }) => {
        const [, second] = users
        if (second !== undefined) second.email = ''
      },
    })
    const { items, unreadable } = await (await opened(at)).users(signal)
    expect(items).toHaveLength(at.world.users.length - 1)
    expect(unreadable).toEqual([
      expect.objectContaining({ kind: 'user', id: '2', reason: expect.stringMatching(/email/) }),
    ])
  })
})

describe('what keys may do', () => {
  it('is everything for the key of an administrator', async () => {
    const at = await simulator()
    const probe = await (await opened(at)).probe(signal)
    expect(probe).toMatchObject({ missing: [], clientApi: 'yes', counts: { server: 12, node: 2, nest: 2 } })
    expect(new Set(Object.values(probe.reads))).toEqual(new Set(['yes']))
  })

  it('is named where it is missing', async () => {
    const at = await simulator()
    const probe = await (await opened(at, { key: at.keys.applicationServersOnly })).probe(signal)
    expect(probe.reads).toMatchObject({ server: 'yes', user: 'no', node: 'no', nest: 'no', location: 'no' })
    expect(probe.clientApi).toBe('no')
    expect(probe.missing.join('\n')).toMatch(/may not read users[\s\S]*key of an administrator's account/)
    const both = { key: at.keys.application, clientKey: at.keys.member }
    expect((await (await opened(at, both)).probe(signal)).missing).toEqual([expect.stringMatching(/reaches \d+ of 12/)])
  })

  it('is nothing where the key is unknown', async () => {
    const failure = await failureOf(opened(await simulator(), { key: 'ptla_wrong' }))
    expect(failure).toMatchObject({ problem: 'auth', isTransient: false, status: 401 })
  })
})

describe('requests to a source', () => {
  it('are tried again, and what was carried out without an answer is not done twice', async () => {
    const at = await simulator({ fullSlots: 0, zeroSlots: 0 })
    const source = await opened(at)
    const server = await serverNamed(source, 3)
    await at.setFaults({ failEvery: 2, failKind: 'lost' })
    const made = await source.files?.createBackup(server, { name: 'moving', ignored: [] }, signal)
    const again = await source.files?.createBackup(server, { name: 'moving', ignored: [] }, signal)
    expect(again?.uuid).toBe(made?.uuid)
    expect(at.world.servers[2]?.backups.filter(({ name }) => name === 'moving')).toHaveLength(1)
    expect(source.usage.retries).toBeGreaterThan(0)
  })

  const lookedUp = async (failKind: FailKind) => {
    const at = await simulator({ fullSlots: 0, zeroSlots: 0 })
    const source = await opened(at)
    const server = await serverNamed(source, 3)
    await at.setFaults({ failEvery: 1, failKind, failMethods: ['POST'], failLeft: 2 })
    const from = at.log.length
    await source.files?.createBackup(server, { name: 'moving', ignored: [] }, signal)
    const isDone = failKind === 'lost'
    const methods = at.log.slice(from).map(({ method }) => method)
    expect(methods).toEqual(isDone ? ['GET', 'POST', 'GET'] : ['GET', 'POST', 'GET', 'POST', 'GET', 'POST'])
    const power = at.log.length
    await at.setFaults({ failLeft: 1 })
    await source.files?.setPower(server, 'start', signal)
    expect(at.log.slice(power).map(({ method }) => method)).toEqual(isDone ? ['POST', 'GET'] : ['POST', 'GET', 'POST'])
  }
  it.each(['500', 'lost'] as const)('that change something are looked up before they are sent again: %s', lookedUp)
  it.each(['html', 'reset'] as const)(
    'that change something are looked up before they are sent again: %s',
    { tags: ['long'] },
    lookedUp,
  )

  const gotOver = async (failKind: FailKind) => {
    const at = await simulator({ faults: { failEvery: 3, failKind, failLeft: 2 } })
    expect((await (await opened(at)).servers(signal)).items).toHaveLength(12)
  }
  it.each(['502', 'cut', 'hang'] as const)('get over failures: %s', gotOver)
  it.each(['500', '503', '504', 'html', 'reset'] as const)('get over failures: %s', { tags: ['long'] }, gotOver)

  const waited = async (said: 'seconds' | 'date') => {
    const asked: number[] = []
    let backMs = 0
    const at = await answering((_, response) => {
      asked.push(Date.now())
      if (asked.length === 1) {
        backMs = said === 'date' ? Math.ceil((Date.now() + 200) / 1000) * 1000 : Date.now() + 1000
        const headers = { 'retry-after': said === 'date' ? new Date(backMs).toUTCString() : '1' }
        response.writeHead(503, headers).end('{"errors":[{"code":"HttpException","detail":"down"}]}')
      } else response.end('{"object":"list","data":[]}')
    })
    const { flavor, usage } = await opened(at)
    expect(flavor).toBe('pterodactyl')
    expect(asked).toHaveLength(2)
    expect(asked[1]).toBeGreaterThanOrEqual(backMs)
    expect(usage.retries).toBe(1)
  }
  it.each(['seconds'] as const)('wait for the end of a maintenance that is said in a %s', waited)
  it.each(['date'] as const)('wait for the end of a maintenance that is said in a %s', { tags: ['long'] }, waited)

  it('are not sent at all while the source wants to be left alone for longer than one waits', async () => {
    let asked = 0
    const at = await answering((_, response) => {
      asked++
      if (asked === 1) response.end('{"object":"list","data":[]}')
      else response.writeHead(429, { 'retry-after': '3600' }).end('{"errors":[{"code":"ThrottleRequestsException"}]}')
    })
    const source = await opened(at)
    const first = await failureOf(source.users(signal))
    expect(first).toMatchObject({ problem: 'throttle', isTransient: true, retryAfterMs: 3_600_000 })
    const second = await failureOf(source.users(signal))
    expect(second.problem).toBe('throttle')
    expect(second.retryAfterMs).toBeGreaterThan(3_590_000)
    expect(asked).toBe(2)
  })

  it.each([
    ['pterodactyl', 'seconds'],
    ['pelican', 'date'],
  ] as const)('are not sent before the time is over that the source asks for: %s, %s', async (flavor, retryAfter) => {
    const at = await simulator({ flavor, faults: { throttle: 8, throttleWindowMs: 1000, retryAfter } })
    const source = await opened(at)
    const server = await serverNamed(source, 3)
    await Promise.all(Array.from({ length: 8 }, () => source.schedules(server, signal)))
    expect(at.log.filter(({ early }) => early)).toEqual([])
    expect(source.usage.throttledMs).toBeGreaterThan(0)
  })

  it('end at once when they are cancelled, also while they wait', async () => {
    const at = await simulator({ faults: { throttle: 2, throttleWindowMs: 60_000 } })
    const source = await opened(at)
    const cancel = new AbortController()
    const work = Promise.all(Array.from({ length: 6 }, () => source.users(cancel.signal)))
    cancel.abort(new Error('cancelled'))
    await expect(work).rejects.toThrow('cancelled')
  })
})

describe('a server of a source', () => {
  it('is left as it was found when what was changed is put back', async () => {
    const at = await simulator()
    const source = await opened(at)
    const before = at.state()
    for (const { id } of at.world.servers) {
      const build = await source.files?.build(String(id), signal)
      if (build === undefined) expect.fail()
      const backups = (build.featureLimits.backups ?? 0) + 1
      await source.files?.setBuild(String(id), { ...build, featureLimits: { ...build.featureLimits, backups } }, signal)
      expect(at.world.servers[id - 1]?.featureLimits.backups).toBe(backups)
      await source.files?.setBuild(String(id), build, signal)
    }
    const suspended = await serverNamed(source, 12)
    expect((await failureOf(source.schedules(suspended, signal))).problem).toBe('state')
    await source.files?.setSuspended('12', false, signal)
    expect((await source.schedules(suspended, signal)).items.length).toBeGreaterThan(0)
    await source.files?.setSuspended('12', true, signal)
    await source.files?.setSuspended('12', true, signal)
    expect(at.state()).toEqual(before)
  })

  it('has no slot for a backup, or is asked for too many: each said as what it is', async () => {
    const at = await simulator({ faults: { backupThrottle: { max: 1, windowMs: 600_000 } } })
    const source = await opened(at)
    const without = at.world.servers.find(({ featureLimits }) => (featureLimits.backups ?? 0) === 0)
    const full = await failureOf(
      source.files?.createBackup(await serverNamed(source, without?.id ?? 0), { name: 'm', ignored: [] }, signal) ??
        Promise.resolve(),
    )
    expect(full).toMatchObject({ problem: 'slots', isTransient: false })
    const server = await serverNamed(source, 3)
    await source.files?.createBackup(server, { name: 'one', ignored: [] }, signal)
    const throttled = await failureOf(
      source.files?.createBackup(server, { name: 'two', ignored: [] }, signal) ?? Promise.resolve(),
    )
    expect(throttled).toMatchObject({ problem: 'backup-throttle', isTransient: true })
    expect(throttled.retryAfterMs).toBeGreaterThan(500_000)
  })

  it.each(['pterodactyl', 'pelican'] as const)(
    'is on a node that is off: that is said, and others go on: %s',
    async (flavor) => {
      const at = await simulator({ flavor, faults: { wingsOffline: [1] } })
      const source = await opened(at)
      const create = async (id: number) =>
        await source.files?.createBackup(await serverNamed(source, id), { name: 'm', ignored: [] }, signal)
      const failure = await failureOf(create(1))
      expect(failure).toMatchObject({ problem: 'node-offline', isTransient: true, status: 504 })
      expect(await create(2)).toMatchObject({ state: 'pending' })
      const tree = (await source.files?.tree(await serverNamed(source, 1), signal)) ?? expect.fail()
      expect(await failureOf(tree.list('', signal))).toMatchObject({ problem: 'unreachable', isTransient: true })
    },
  )

  it('has a backup that never ends, which stays what it is', async () => {
    const at = await simulator({ faults: { backupHang: 1, backupMs: 1 } })
    const source = await opened(at)
    const [third, fourth] = [await serverNamed(source, 3), await serverNamed(source, 4)]
    const { uuid } = (await source.files?.createBackup(third, { name: 'm', ignored: [] }, signal)) ?? expect.fail()
    const good = (await source.files?.createBackup(fourth, { name: 'm', ignored: [] }, signal)) ?? expect.fail()
    await expect.poll(async () => (await source.files?.backup(fourth, good.uuid, signal))?.state).toBe('good')
    expect(await source.files?.backup(third, uuid, signal)).toMatchObject({ state: 'pending', sha1: null })
    await source.files?.deleteBackup(third, uuid, signal)
    await source.files?.deleteBackup(fourth, good.uuid, signal)
    expect(at.changes()).toEqual([])
  })

  it('has a failed backup, which is not taken for a good one', async () => {
    const at = await simulator({ faults: { backupFail: 1, backupMs: 1 } })
    const source = await opened(at)
    const server = await serverNamed(source, 3)
    const { uuid } =
      (await source.files?.createBackup(server, { name: 'm', ignored: ['*.log'] }, signal)) ?? expect.fail()
    await expect.poll(async () => (await source.files?.backup(server, uuid, signal))?.state).toBe('failed')
    await source.files?.deleteBackup(server, uuid, signal)
    await source.files?.deleteBackup(server, uuid, signal)
    expect(await source.files?.backup(server, uuid, signal)).toBeUndefined()
  })
})

describe('the files of a server without backups', () => {
  it('come one by one from its node, as they are there', async () => {
    const at = await simulator()
    const source = await opened(at)
    const server = await serverNamed(source, 12)
    expect(server.isSuspended).toBe(true)
    const tree = (await source.files?.tree(server, signal)) ?? expect.fail()
    const found: Record<string, string> = {}
    const walk = async (folder: string): Promise<void> => {
      for (const { name, kind } of await tree.list(folder, signal)) {
        const path = folder === '' ? name : `${folder}/${name}`
        if (kind === 'folder') await walk(path)
        if (kind !== 'file') continue
        const hash = createHash('sha256')
        for await (const piece of tree.read(path, signal)) hash.update(piece)
        found[path] = hash.digest('hex')
      }
    }
    await walk('')
    const files = Object.entries(at.manifest()[server.uuid] ?? {})
    expect(files.length).toBeGreaterThan(3)
    expect(found).toEqual(Object.fromEntries(files.map(([path, { sha256 }]) => [path, sha256])))
    const denied = await opened(at, { key: at.keys.applicationServersOnly })
    expect(await denied.files?.tree(server, signal)).toBeUndefined()
  })

  it('ask the panel once what opens their node, and again when that was changed', async () => {
    const at = await simulator()
    const source = await opened(at)
    const listed = async (id: number) => {
      const tree = await source.files?.tree(await serverNamed(source, id), signal)
      return (await tree?.list('', signal))?.length ?? 0
    }
    const asked = () => at.log.filter(({ path }) => path.endsWith('/configuration')).length
    const [first, second] = at.world.servers.filter(({ nodeId }) => nodeId === 1)
    expect(await listed(first?.id ?? 0)).toBeGreaterThan(0)
    expect(await listed(second?.id ?? 0)).toBeGreaterThan(0)
    expect(asked()).toBe(1)
    for (const node of at.world.nodes) node.token = 'a'.repeat(64)
    expect(await listed(first?.id ?? 0)).toBeGreaterThan(0)
    expect(asked()).toBe(2)
  })
})

describe('an address that is no source', () => {
  it('is said to be none', async () => {
    const at = await answering((_, response) => response.writeHead(404).end('<html>'))
    expect(await failureOf(opened(at))).toMatchObject({ problem: 'not-a-source' })
    const page = await answering((_, response) => response.end('<html>'))
    expect(await failureOf(opened(page))).toMatchObject({ problem: 'not-a-source' })
    expect(await failureOf(opened({ url: 'ftp://panel.example' }))).toMatchObject({ problem: 'not-a-source' })
  })

  it('gets the key no further: redirects are named and not followed', async () => {
    const asked: string[] = []
    const elsewhere = await answering((request, response) => {
      asked.push(request.url ?? '')
      response.end()
    })
    const at = await answering((_, response) => response.writeHead(302, { location: `${elsewhere.url}/x` }).end())
    const failure = await failureOf(opened(at))
    expect(failure.message).toContain(elsewhere.url)
    expect(asked).toEqual([])
  })

  it.each([
    ['repeats its pages', () => 1],
    ['is longer than any list', (page: number) => page * 60_000],
  ])('cannot be read for ever: a list that %s', { tags: ['long'] }, async (what, firstId) => {
    const at = await answering((request, response) => {
      const page = Number(new URL(request.url ?? '/', 'http://source').searchParams.get('page') ?? 1)
      const rows = Array.from({ length: 60_000 }, (_row, n) => ({
        object: 'user',
        attributes: { id: firstId(page) + n },
      }))
      const pagination = { total: 1_000_000, current_page: page, total_pages: 1_000_000 }
      response.end(JSON.stringify({ object: 'list', data: rows, meta: { pagination } }))
    })
    const failure = await failureOf((await opened(at)).users(signal))
    expect(failure).toMatchObject({
      problem: 'not-a-source',
      isTransient: false,
      message: expect.stringContaining(what),
    })
  })

  it('can neither lead a request elsewhere nor bring a name that is none', async () => {
    const asked: string[] = []
    const name = `a\u001b]0;x\u0007${'n'.repeat(100_000)}`
    const at = await answering((request, response) => {
      asked.push(request.url ?? '')
      const rows = [
        { object: 'nest', attributes: { id: '../users/1?x=', uuid: 'u', name, description: null } },
        { object: 'nest', attributes: { id: '..', uuid: 'u', name: ['a'], description: null } },
        { object: 'nest', attributes: null },
        JSON.parse('{"object":"nest","attributes":{"id":7,"__proto__":{"id":8},"name":"good"}}'),
        'row',
      ]
      response.end(JSON.stringify({ object: 'list', data: rows }))
    })
    const source = await opened(at)
    const { items, unreadable } = await source.nests(signal)
    expect(items.map(({ id }) => id)).toEqual(['../users/1?x=', '7'])
    expect(items[0]?.name.length).toBeLessThanOrEqual(255)
    expect(items[0]?.name).not.toMatch(/\p{Cc}/u)
    expect(unreadable.map(({ id }) => id)).toEqual(['..', null, null])
    await source.eggs(signal).catch(() => undefined) // where it asks is what counts
    expect(
      asked.filter((path) => !/^\/api\/application\/nests(?:\/(?:7|\.\.%2Fusers%2F1%3Fx%3D)\/eggs)?\?/.test(path)),
    ).toEqual([])
  })

  it('cannot bring an address that mail would read as more than one', async () => {
    const emails = [
      'a@b.example\r\nBcc: c@d.example',
      'a\u001b[31m@b.example',
      'a@b.example,c@d.example',
      'a <a@b.example>',
      'a\u202e@b.example',
    ]
    const good = ["o'neil+x@b.example", 'ü@b.example', 'root@localhost']
    const at = await answering((_, response) => {
      const data = [...emails, ...good].map((email, id) => ({
        object: 'user',
        attributes: { id, username: 'a', email },
      }))
      response.end(JSON.stringify({ object: 'list', data }))
    })
    const { items, unreadable } = await (await opened(at)).users(signal)
    expect(items.map(({ email }) => email)).toEqual(good)
    expect(unreadable.map(({ id, reason }) => `${id} ${reason}`)).toEqual(
      emails.map((_, id) => expect.stringMatching(new RegExp(`^${id} .*email: must be an e-mail address`))),
    )
  })

  it('can neither fill the memory nor bring a key into a message', async () => {
    const deep = await answering((_, response) => response.end('['.repeat(100_000)))
    expect(await failureOf(opened(deep))).toMatchObject({ problem: 'not-a-source' })
    const chatty = await answering((_, response) => {
      const detail = `\u001b[31mno ptla_${'k'.repeat(43)} eyJhbGciOiJI.eyJpc3Mi.c2ln ?token=abc\n`
      response.writeHead(422).end(JSON.stringify({ errors: [{ code: 'X', detail }] }))
    })
    expect((await failureOf(opened(chatty))).message).toMatch(/: no \[key\] \[token\] \?token=\[hidden\]$/)
    const endless = await answering((_, response) => {
      const piece = Buffer.alloc(1024 * 1024, ' ')
      const more = (): void => {
        while (!response.destroyed && response.write(piece));
      }
      response.on('drain', more)
      more()
    })
    const before = process.memoryUsage().rss
    expect(await failureOf(opened(endless))).toMatchObject({ problem: 'not-a-source', isTransient: false })
    expect(process.memoryUsage().rss - before).toBeLessThan(256 * 1024 * 1024)
  })
})
