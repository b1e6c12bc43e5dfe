import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Parser, type ReadEntry } from 'tar'
import { afterEach, describe, expect, it } from 'vitest'
import { sourceFlags } from './flags.ts'
import type { FailKind } from './options.ts'
import { attributesOf, refusalOf, requestTo, rowsOf } from './request.ts'
import type { SimServer } from './rows.ts'
import { startSourceProcess } from './source-process.ts'
import { type SourceOptions, type SourceSimulator, startSource } from './source-simulator.ts'

const open: SourceSimulator[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((source) => source.close()))
})

async function started(options: SourceOptions | string = {}): Promise<SourceSimulator> {
  const source = await startSource(typeof options === 'string' ? sourceFlags(options) : options)
  open.push(source)
  return source
}

interface Backup {
  readonly uuid: string
  readonly is_successful: boolean
  readonly checksum: string | null
  readonly bytes: number
  readonly completed_at: string | null
}

function serverAt(source: SourceSimulator, id: number): SimServer {
  const server = source.world.servers.find((one) => one.id === id)
  if (server === undefined) throw new Error(`there is no server ${id}`)
  return server
}

const pathOf = (source: SourceSimulator, id: number): string => `/api/client/servers/${serverAt(source, id).uuid}`

/** Makes a backup and waits for its end. */
async function backUp(source: SourceSimulator, id: number, body: unknown = {}): Promise<Backup> {
  const ask = requestTo(source)
  const path = `${pathOf(source, id)}/backups`
  let backup = await attributesOf<Backup>(await ask(path, { method: 'POST', body: JSON.stringify(body) }))
  expect(backup).toMatchObject({ is_successful: false, completed_at: null, checksum: null })
  while (backup.completed_at === null) {
    await sleep(5)
    backup = await attributesOf<Backup>(await ask(`${path}/${backup.uuid}`))
  }
  return backup
}

async function downloadUrl(source: SourceSimulator, id: number, { uuid }: Backup): Promise<string> {
  const answer = await requestTo(source)(`${pathOf(source, id)}/backups/${uuid}/download`)
  return (await attributesOf<{ url: string }>(answer)).url
}

const sha = (kind: 'sha1' | 'sha256', bytes: Buffer): string => createHash(kind).update(bytes).digest('hex')

/** The entries of a gzipped tar; those that are no files too. */
async function entriesOf(archive: Buffer): Promise<Map<string, Buffer>> {
  const entries: Promise<readonly [string, Buffer]>[] = []
  const onReadEntry = (entry: ReadEntry): void => {
    entries.push(entry.concat().then((bytes) => [entry.path, Buffer.from(bytes)] as const))
  }
  const parser = new Parser({ onReadEntry })
  const end = new Promise((resolve) => parser.once('end', resolve))
  parser.end(archive)
  await end
  return new Map(await Promise.all(entries))
}

describe('a source', () => {
  it('says of what is wrong what the framework of real ones says', async () => {
    const source = await started()
    const { keys } = source
    const refused = async (path: string, key?: string): Promise<unknown> =>
      await refusalOf(await requestTo(source, key)(path))
    expect(await refused('/api/application/nodes', 'ptla_no')).toEqual([401, 'AuthenticationException'])
    expect(await refused('/api/client', keys.application)).toEqual([403, 'AccessDeniedHttpException'])
    expect(await refused('/api/application/users', keys.member)).toEqual([403, 'AccessDeniedHttpException'])
    const servers = keys.applicationServersOnly
    expect(await refused('/api/application/users', servers)).toEqual([403, 'AccessDeniedHttpException'])
    expect(await refused('/api/application/eggs')).toEqual([404, 'NotFoundHttpException'])
    expect(await refused('/api/application/servers/99')).toEqual([404, 'NotFoundHttpException'])
    expect(await refused('/api/application/servers?include=transfer')).toEqual([500, 'TypeError'])
    expect(await refused('/api/application/users?filter[no]=1')).toEqual([400, 'InvalidFilterQuery'])
    const html = await requestTo(source, 'ptla_no')('/api/application/nodes', { headers: { accept: 'text/html' } })
    expect([html.status, html.headers.get('location')]).toEqual([302, `${source.url}/auth/login`])
    const shown = await (await requestTo(source, servers)('/api/application/servers?include=egg,no')).text()
    expect(shown).toContain('"egg":{"object":"null_resource","attributes":null}')
    expect(shown).not.toContain('"no":')
    const suspend = { method: 'POST' }
    const readOnly = await requestTo(source, keys.applicationReadOnly)('/api/application/servers/1/suspend', suspend)
    expect(readOnly.status).toBe(403)
    await source.setFaults({ forced2fa: true })
    expect(await refused('/api/client')).toEqual([400, 'TwoFactorAuthRequiredException'])
  })

  it('answers in pages, of which those of lists without a sort overlap', async () => {
    const ask = requestTo(await started())
    const ids = async (query: string): Promise<unknown[]> => {
      const pages = [1, 2].map((page) => ask(`/api/application/servers?per_page=6&page=${page}${query}`))
      return (await Promise.all(pages.map(async (page) => await rowsOf(await page)))).flat().map(({ id }) => id)
    }
    expect(new Set(await ids('&sort=id')).size).toBe(12)
    expect(new Set(await ids('')).size).toBeLessThan(12)
    const body = async (path: string): Promise<unknown> => await (await ask(path)).json()
    expect(await body('/api/application/servers?per_page=5&page=2&sort=id')).toMatchObject({
      meta: { pagination: { total: 12, count: 5, per_page: 5, current_page: 2, total_pages: 3 } },
    })
    expect((await ask('/api/application/nests?sort=id')).status).toBe(400)
    expect(await body('/api/application/nests/1/eggs')).not.toHaveProperty('meta')
    // A part of the address finds two.
    expect(await rowsOf(await ask('/api/application/users?filter[email]=doe@players.example'))).toHaveLength(3)
  })

  it('is one of Pelican where that is asked for', async () => {
    const source = await started('--flavor pelican --servers 3 --suspended 1 --full-slots 0 --zero-slots 0')
    const ask = requestTo(source)
    const first = async (path: string): Promise<Record<string, unknown>> =>
      (await rowsOf(await ask(`/api/application/${path}`)))[0] ?? {}
    expect(source.keys).toMatchObject({
      account: expect.stringMatching(/^pacc_/),
      application: expect.stringMatching(/^papp_/),
    })
    expect((await ask('/api/application/nests')).status).toBe(404)
    expect((await ask('/api/application/locations')).status).toBe(404)
    expect((await ask('/api/application/eggs?include=config')).status).toBe(500)
    expect(await first('servers')).not.toHaveProperty('nest')
    expect(await first('servers')).toMatchObject({ limits: { oom_killer: false, oom_disabled: true } })
    expect(await first('users')).not.toHaveProperty('first_name')
    expect(await first('nodes')).not.toHaveProperty('location_id')
    expect(await first('eggs')).toMatchObject({ tags: ['minecraft'], startup_commands: {} })
    const { relationships } = await first('eggs?include=variables')
    expect(JSON.stringify(relationships)).toContain('"rules":["required","string","regex:/^[a-z|A-Z ]{1,40}$/"]')
    expect(await first('mounts')).toMatchObject({ source: '/srv/maps', read_only: true })
    expect((await ask('/api/application/nodes')).headers.get('x-ratelimit-limit')).toBe('256')
    // The files of a suspended server are within the administrators' reach, a backup of it is not.
    expect((await ask(`${pathOf(source, 3)}/files/list`)).status).toBe(200)
    expect((await ask(`${pathOf(source, 3)}/backups`, { method: 'POST' })).status).toBe(409)
  })

  it('has the same rows and files for the same seed, and others for another', { tags: ['long'] }, async () => {
    const flags = '--servers 6 --full-slots 1'
    const [one, same, other] = [await started(flags), await started(flags), await started(`${flags} --seed 8`)]
    expect(same.state()).toEqual(one.state())
    expect(same.manifest()).toEqual(one.manifest())
    expect(same.keys).toEqual(one.keys)
    expect(other.state()).not.toEqual(one.state())
  })

  it('is described by flags', () => {
    const world =
      '--flavor pelican --servers 12 --seed 7 --suspended 1 --full-slots 1 --zero-slots 2 --poison-egg --plain'
    expect(sourceFlags(world)).toEqual({
      ...{ flavor: 'pelican', servers: 12, seed: 7, suspended: 1, fullSlots: 1, zeroSlots: 2 },
      ...{ poisonEgg: true, oddities: false, faults: {} },
    })
    const requests = '--throttle 30 --throttle-window 5 --retry-after date --fail-every 5 --fail-kind lost'
    const archives =
      '--truncate-backup 1 --truncate-mode short --corrupt-backup --backup-hang --hostile-tar --slow-bps 20000'
    expect(sourceFlags(`${requests} ${archives} --wings-offline 1,2`).faults).toEqual({
      ...{ throttle: 30, throttleWindowMs: 5000, retryAfter: 'date', failEvery: 5, failKind: 'lost' },
      ...{ truncateBackup: 1, truncateMode: 'short', corruptBackup: Number.MAX_SAFE_INTEGER },
      ...{ backupHang: Number.MAX_SAFE_INTEGER, hostileTar: true, slowBps: 20_000, wingsOffline: [1, 2] },
    })
    for (const wrong of ['--no', '--servers many', '--fail-kind 404', '--flavor catalyst']) {
      expect(() => sourceFlags(wrong)).toThrow()
    }
  })

  it('has what real ones have', async () => {
    const { world } = await started('--dangling-owners 1')
    expect(world.users.map(({ username }) => username)).toEqual(
      expect.arrayContaining(['j.doe', 'j_doe', 'UPPER.Case']),
    )
    expect(world.users.some(({ email }) => email !== email.toLowerCase())).toBe(true)
    expect(world.servers[0]?.databases[0]?.database).toHaveLength(50)
    expect(world.allocations.filter(({ ip }) => ip.includes(':'))).toMatchObject([{ serverId: 1 }])
    expect(world.users.some(({ id }) => id === world.servers[0]?.ownerId)).toBe(false)
    const crons = world.servers.flatMap(({ schedules }) => schedules.map(({ cron }) => cron))
    expect(crons).toEqual(expect.arrayContaining([expect.objectContaining({ dayOfMonth: 'L', dayOfWeek: '?' })]))
    const ports = (nodeId: number): number[] =>
      world.allocations.filter((row) => row.nodeId === nodeId).map(({ port }) => port)
    expect(ports(1).filter((port) => ports(2).includes(port)).length).toBeGreaterThan(5)
    // Ids of servers and of nodes are of the same numbers.
    expect(world.servers.map(({ id }) => id)).toEqual(expect.arrayContaining(world.nodes.map(({ id }) => id)))
  })

  it('cannot show an egg that is stored badly, nor a list with it', async () => {
    const ask = requestTo(await started('--poison-egg'))
    const statuses = [
      'nests/1/eggs',
      'nests/1/eggs/5',
      'servers?include=egg',
      'nests/1/eggs/1',
      'nests/2/eggs',
      'servers',
    ]
    const answers = await Promise.all(statuses.map((path) => ask(`/api/application/${path}`)))
    expect(answers.map(({ status }) => status)).toEqual([500, 500, 500, 200, 200, 200])
  })

  it('lets a week pass', async () => {
    const source = await started()
    const [state, manifest] = [source.state(), source.manifest()]
    source.passWeek()
    const first = serverAt(source, 1).uuid
    expect(source.world.servers).toHaveLength(13)
    expect(source.state()).not.toEqual(state)
    expect(source.manifest()[first]?.['eula.txt']).toBeUndefined()
    expect(source.manifest()[first]?.['world/region/r.0.0.mca']).not.toEqual(
      manifest[first]?.['world/region/r.0.0.mca'],
    )
    expect(source.manifest()[serverAt(source, 4).uuid]).toEqual(manifest[serverAt(source, 4).uuid])
  })

  it('says what is not as it was found', async () => {
    const source = await started('--backup-hang 1')
    expect(source.changes()).toEqual([])
    const ask = requestTo(source)
    await ask(`${pathOf(source, 2)}/backups`, { method: 'POST', body: JSON.stringify({ name: 'left' }) })
    await ask('/api/application/servers/3/suspend', { method: 'POST' })
    expect(source.changes()).toEqual([
      expect.stringMatching(/^servers\.2\.backups\.[\w-]+ is new: .*"name":"left"/),
      'servers.3.status: null -> "suspended"',
    ])
    const [backup] = serverAt(source, 2).backups
    await ask(`${pathOf(source, 2)}/backups/${backup?.uuid}`, { method: 'DELETE' })
    await ask('/api/application/servers/3/unsuspend', { method: 'POST' })
    expect(source.changes()).toEqual([])
    const written = source.log.flatMap(({ method, body }) => (method === 'POST' ? [body] : []))
    expect(written).toEqual(['{"name":"left"}', '{}', '{}'])
    serverAt(source, 5).limits.memory = 1
    source.world.servers.pop()
    expect(source.changes()).toEqual(['servers.5.limits.memory: 1024 -> 1', 'servers.12 is gone'])
  })

  it('comes back where it was, with all that it had', async () => {
    const source = await started()
    const { url } = source
    await source.restart()
    expect(source.url).toBe(url)
    expect((await backUp(source, 2)).is_successful).toBe(true)
    expect(await requestTo(source)('/api/application/nodes').then(({ status }) => status)).toBe(200)
  })

  it('is the same after a kill when it has a folder', { tags: ['long'] }, async () => {
    const all = '--servers 3 --suspended 0 --full-slots 0 --zero-slots 0'
    const folder = await mkdtemp(join(tmpdir(), 'panel-source-kept-'))
    const source = await startSourceProcess(`${all} --backup-ms 400 --backup-hang 1 --folder ${folder}`)
    try {
      const { url, keys, pid } = source
      const { servers } = await source.state()
      const ask = requestTo(source)
      const make = async (id: number, name: string): Promise<string> => {
        const path = `/api/client/servers/${servers[id - 1]?.uuid}/backups`
        const answer = await ask(path, { method: 'POST', body: JSON.stringify({ name }) })
        return (await attributesOf<Backup>(answer)).uuid
      }
      const made = [await make(2, 'hangs'), await make(2, 'goes on')]
      const changed = async () => (await source.changes()).map((line) => line.split(' ')[0])
      const before = await changed()
      expect(before).toEqual(made.map((uuid) => `servers.2.backups.${uuid}`))
      await source.restart()
      expect([source.url, source.keys, source.pid === pid]).toEqual([url, keys, false])
      expect(await changed()).toEqual(before)
      const backups = async () => (await source.state()).servers[1]?.backups
      await expect.poll(async () => (await backups())?.[1]?.checksum).toMatch(/^sha1:/)
      expect((await backups())?.[0]).toMatchObject({ name: 'hangs', completedMs: null })
      expect(made).not.toContain(await make(3, 'another'))
      // Both count for the throttle, whatever has ended in between.
      expect((await ask(`/api/client/servers/${servers[1]?.uuid}/backups`, { method: 'POST' })).status).toBe(429)
    } finally {
      await source.close()
      await rm(folder, { recursive: true, force: true })
    }
  })

  it('runs in a process of its own as well', async () => {
    const flags = '--servers 4 --seed 3'
    const [there, here] = [await startSourceProcess(flags), await started(flags)]
    try {
      expect(there.keys).toEqual(here.keys)
      expect(await there.state()).toEqual(JSON.parse(JSON.stringify(here.state())))
      expect(await there.manifest()).toEqual(here.manifest())
      expect((await requestTo(there)('/api/application/nodes')).status).toBe(200)
      await there.setFaults({ failEvery: 1 })
      expect((await requestTo(there)('/api/application/nodes')).status).toBe(500)
      expect((await there.log()).map(({ status }) => status)).toEqual([200, 500])
    } finally {
      await there.close()
    }
  })
})

describe('a backup of a source', () => {
  it('is an archive of the files alone, with its checksum, behind a URL that is good once', async () => {
    const source = await started()
    const backup = await backUp(source, 1, { name: 'ours' })
    const url = await downloadUrl(source, 1, backup)
    const archive = Buffer.from(await (await fetch(url)).arrayBuffer())
    expect([archive.length, `sha1:${sha('sha1', archive)}`]).toEqual([backup.bytes, backup.checksum])
    const entries = [...(await entriesOf(archive))].map(([path, bytes]) => [path, sha('sha256', bytes)])
    const manifest = Object.entries(source.manifest()[serverAt(source, 1).uuid] ?? {})
    expect(Object.fromEntries(entries)).toEqual(
      Object.fromEntries(manifest.map(([path, { sha256 }]) => [path, sha256])),
    )
    expect((await fetch(url)).status).toBe(404)
    expect((await fetch(url.replace(/.$/, '!'))).status).toBe(500)
    expect(source.log.filter(({ to }) => to.startsWith('wings')).map(({ query }) => query)).toEqual(
      Array.from({ length: 3 }, () => '?token=…'),
    )
  })

  it('leaves out what it is asked to, and is refused where there is no room for it', async () => {
    const source = await started()
    const ask = requestTo(source)
    const create = async (id: number): Promise<Response> =>
      await ask(`${pathOf(source, id)}/backups`, { method: 'POST' })
    const backup = await backUp(source, 2, { ignored: 'world\n*.txt' })
    const archive = Buffer.from(await (await fetch(await downloadUrl(source, 2, backup))).arrayBuffer())
    const paths = [...(await entriesOf(archive)).keys()]
    expect(paths).toContain('server.properties')
    expect(paths.filter((path) => path.startsWith('world') || path.endsWith('.txt'))).toEqual([])
    // The slots: full, none, and those of a suspended server.
    expect(await refusalOf(await create(11))).toEqual([400, 'TooManyBackupsException'])
    expect(await refusalOf(await create(10))).toEqual([400, 'TooManyBackupsException'])
    expect(await refusalOf(await create(12))).toEqual([409, 'ServerStateConflictException'])
    // Deleted ones count for the throttle.
    const remove = { method: 'DELETE' }
    expect((await ask(`${pathOf(source, 2)}/backups/${backup.uuid}`, remove)).status).toBe(204)
    await backUp(source, 2)
    const throttled = await create(2)
    expect(Number(throttled.headers.get('retry-after'))).toBeGreaterThan(590)
    expect(await refusalOf(throttled)).toEqual([429, 'TooManyRequestsHttpException'])
    const locked = serverAt(source, 1).backups[0]?.uuid
    expect((await ask(`${pathOf(source, 1)}/backups/${locked}`, remove)).status).toBe(400)
  })

  it('fails, hangs, is cut off, is short, is corrupt, is missing, and then is good', async () => {
    const source = await started(
      '--backup-fail 1 --truncate-backup 1 --truncate-mode short --corrupt-backup 1 --download-missing 1',
    )
    await source.setFaults({ backupThrottle: { max: 9, windowMs: 1000 } })
    expect(await backUp(source, 3)).toMatchObject({ is_successful: false, checksum: null, bytes: 0 })
    const backup = await backUp(source, 3)
    const download = async (): Promise<Response> => await fetch(await downloadUrl(source, 3, backup))
    const bytesOf = async (answer: Response): Promise<Buffer> => Buffer.from(await answer.arrayBuffer())
    expect((await download()).status).toBe(404)
    expect((await bytesOf(await download())).length).toBe(Math.floor(backup.bytes / 2))
    const corrupt = await bytesOf(await download())
    expect([corrupt.length, `sha1:${sha('sha1', corrupt)}` === backup.checksum]).toEqual([backup.bytes, false])
    await source.setFaults({ truncateBackup: 1, truncateMode: 'reset' })
    await expect(download().then(bytesOf)).rejects.toThrow()
    expect(`sha1:${sha('sha1', await bytesOf(await download()))}`).toBe(backup.checksum)
    await source.setFaults({ backupHang: 1 })
    const hung = await requestTo(source)(`${pathOf(source, 4)}/backups`, { method: 'POST' })
    const { uuid } = await attributesOf<Backup>(hung)
    await backUp(source, 4)
    expect(serverAt(source, 4).backups.find((one) => one.uuid === uuid)?.completedMs).toBeNull()
  })

  it('can have entries that no honest one has, under a right checksum', async () => {
    const source = await started('--hostile-tar')
    const backup = await backUp(source, 1)
    const archive = Buffer.from(await (await fetch(await downloadUrl(source, 1, backup))).arrayBuffer())
    expect(`sha1:${sha('sha1', archive)}`).toBe(backup.checksum)
    const paths = [...(await entriesOf(archive)).keys()]
    expect(paths).toEqual(expect.arrayContaining(['../escaped.txt', '/tmp/panel-escaped.txt', 'etc', 'disk']))
  })

  it('lies in an object store where the source has one', async () => {
    const source = await started('--s3')
    const backup = await backUp(source, 1)
    const url = await downloadUrl(source, 1, backup)
    expect(new URL(url).port).not.toBe(new URL(source.nodeUrl(1)).port)
    const archive = Buffer.from(await (await fetch(url)).arrayBuffer())
    expect(`sha1:${sha('sha1', archive)}`).toBe(backup.checksum)
    expect((await fetch(url.replace('X-Amz-Expires=', 'X-Amz-Expires=9'))).status).toBe(403)
  })
})

describe('the nodes of a source', () => {
  it('list and give files to whom the panel gave their token, links and empty folders too', async () => {
    const source = await started()
    const { uuid, nodeId } = serverAt(source, 12)
    const configuration = await requestTo(source)(`/api/application/nodes/${nodeId}/configuration`)
    const { token } = (await configuration.json()) as { token: string }
    const ask = requestTo(source, token)
    const files = `${source.nodeUrl(nodeId)}/api/servers/${uuid}/files`
    const listed = (await (await ask(`${files}/list-directory?directory=/`)).json()) as Record<string, unknown>[]
    expect(listed.map(({ name, symlink }) => [name, symlink])).toContainEqual(['latest.log', true])
    expect(listed).toContainEqual(expect.objectContaining({ name: 'run.sh', mode: '-rwxr-xr-x', file: true }))
    const world = (await (await ask(`${files}/list-directory?directory=world`)).json()) as Record<string, unknown>[]
    expect(world.map(({ name, directory }) => [name, directory])).toEqual([
      ['empty', true],
      ['region', true],
    ])
    const bytes = Buffer.from(await (await ask(`${files}/contents?file=/world/region/r.1.0.mca`)).arrayBuffer())
    expect(sha('sha256', bytes)).toBe(source.manifest()[uuid]?.['world/region/r.1.0.mca']?.sha256)
    expect((await requestTo(source)(`${files}/list-directory`)).status).toBe(403)
    expect((await ask(`${files}/list-directory?directory=no`)).status).toBe(404)
  })

  it('are off, and come back where they were', async () => {
    const source = await started('--wings-offline 1')
    const ask = requestTo(source)
    const create = { method: 'POST' }
    expect(await refusalOf(await ask(`${pathOf(source, 1)}/backups`, create))).toEqual([
      504,
      'DaemonConnectionException',
    ])
    expect((await ask(`${pathOf(source, 2)}/backups`, create)).status).toBe(200)
    const url = source.nodeUrl(1)
    await expect(fetch(url)).rejects.toThrow()
    await source.setFaults({ wingsOffline: [] })
    expect([(await fetch(url)).status, source.nodeUrl(1)]).toEqual([403, url])
  })
})

describe('a request to a source', () => {
  it('is refused when there were too many, until the time is over that it says', async () => {
    const source = await started('--throttle 3 --throttle-window 1')
    const ask = requestTo(source)
    const node = async (): Promise<Response> => await ask('/api/application/nodes')
    const left: (string | null)[] = []
    for (let n = 0; n < 3; n++) left.push((await node()).headers.get('x-ratelimit-remaining'))
    expect(left).toEqual(['2', '1', '0'])
    const refused = await node()
    expect(refused.headers.get('retry-after')).toBe('1')
    expect(refused.headers.get('x-ratelimit-reset')).toMatch(/^\d+$/)
    expect(await refusalOf(refused)).toEqual([429, 'ThrottleRequestsException'])
    // The other API counts by itself.
    expect((await ask('/api/client')).status).toBe(200)
    await sleep(200)
    await node()
    await sleep(900)
    expect((await node()).status).toBe(200)
    expect(source.log.map(({ early }) => early)).toEqual([false, false, false, false, false, true, false])
    await source.setFaults({ retryAfter: 'date', throttle: 0 })
    expect((await node()).headers.get('retry-after')).toMatch(/ GMT$/)
  })

  const met = async (kind: FailKind): Promise<void> => {
    const source = await started(`--fail-every 2 --fail-kind ${kind} --fail-methods POST --fail-path /power`)
    const ask = requestTo(source)
    const power = async (id: number): Promise<unknown> => {
      const path = `${pathOf(source, id)}/power`
      const answer = await ask(path, { method: 'POST', body: JSON.stringify({ signal: 'start' }) }).catch(
        () => undefined,
      )
      return answer === undefined ? 'nothing' : [answer.status, answer.headers.get('content-type')]
    }
    expect(await power(1)).toEqual([204, null])
    const failed: Record<string, unknown> = { html: [200, 'text/html'], reset: 'nothing', lost: 'nothing' }
    const ofHttp = /^\d/.test(kind) ? [Number(kind), 'text/html'] : [204, null]
    expect(await power(3)).toEqual(failed[kind] ?? ofHttp)
    // What was lost was done all the same.
    const isDone = kind === 'lost' || kind === 'cut'
    expect(serverAt(source, 3).power).toBe(isDone ? 'running' : 'offline')
    expect((await ask(pathOf(source, 1))).status).toBe(200)
  }
  it.each(['500', 'lost'] as const)('meets what stands in its way: %s', met)
  it.each(['503', '504', 'html', 'cut', 'reset'] as const)('meets what stands in its way: %s', { tags: ['long'] }, met)

  it('can get half of an answer', async () => {
    const source = await started('--fail-every 1 --fail-kind cut')
    await expect(requestTo(source)('/api/application/nodes').then((answer) => answer.text())).rejects.toThrow()
  })

  it('changes limits as it says and nothing else, and can put them back', async () => {
    const source = await started()
    const ask = requestTo(source)
    const before = source.state()
    const { allocationId, limits, featureLimits } = serverAt(source, 4)
    const build = async (backups: number | null, more = {}): Promise<Response> => {
      const body = { allocation: allocationId, limits, feature_limits: { ...featureLimits, backups }, ...more }
      return await ask('/api/application/servers/4/build', { method: 'PATCH', body: JSON.stringify(body) })
    }
    const changed = await attributesOf(await build(3))
    expect(changed).toMatchObject({ limits: { threads: '0,2-3', memory: 1024 }, feature_limits: { backups: 3 } })
    expect(await refusalOf(await build(3, { limits: { memory: 1 } }))).toEqual([422, 'ValidationException'])
    expect(source.state()).not.toEqual(before)
    await build(featureLimits.backups)
    expect(source.state()).toEqual(before)
    await ask('/api/application/servers/4/suspend', { method: 'POST' })
    expect(await refusalOf(await ask(`${pathOf(source, 4)}/schedules`))).toEqual([409, 'ServerStateConflictException'])
    await ask('/api/application/servers/4/unsuspend', { method: 'POST' })
    expect(source.state()).toEqual(before)
  })
})
