import { afterAll, beforeAll, expect, test } from 'vitest'
import { patchServer, type Server } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import { plantFaults, recordStatements } from '../../faulty-driver.ts'
import { type Person, Stage, type StageNode } from './stage.ts'

const variables = [{ name: 'HIDDEN', default: 'out-of-sight', userViewable: false }]

let stage: Stage
let node: StageNode
let template: Template
let owner: Person
let stranger: Person

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  template = await stage.template({ variables })
  owner = await stage.person()
  stranger = await stage.person()
})
afterAll(() => stage.close())

interface Shown {
  readonly status: number
  readonly etag: string
  readonly server: Server | undefined
}

/** The server over plain HTTP, so that its ETag is seen. */
async function read(id: string, { token = stage.panel.adminToken, known = '' } = {}): Promise<Shown> {
  const response = await fetch(`${stage.panel.url}/api/servers/${id}`, {
    headers: { authorization: `Bearer ${token}`, ...(known === '' ? {} : { 'if-none-match': known }) },
  })
  const text = await response.text()
  const { data } = text === '' ? { data: undefined } : (JSON.parse(text) as { data?: Server })
  return { status: response.status, etag: response.headers.get('etag') ?? '', server: data }
}

const make = (count: number): Promise<Server[]> =>
  Promise.all(Array.from({ length: count }, () => stage.create(template, node, { ownerId: owner.id })))
const describeAs = (id: string, description: string) =>
  stage.admin.call(patchServer, { params: { serverId: id as never }, body: { description } })
/** The reads of servers among these statements. */
const readsOf = (texts: readonly string[]): number =>
  texts.filter((text) => /from "server" inner join "template"/.test(text)).length

test('each of many who ask at once gets its own server, as it may see it, by a few statements', async () => {
  const servers = await make(40)
  const tokens = [stage.panel.adminToken, owner.token, stranger.token]
  const asked = servers.flatMap(({ id }, at) => [
    { id, token: tokens[at % 3] ?? '' },
    ...(at % 5 === 0 ? [{ id: `srv_nowhere${at}`, token: stage.panel.adminToken }] : []),
    ...(at % 8 === 0 ? [{ id, token: tokens[(at + 1) % 3] ?? '' }] : []),
  ])
  const recorded = recordStatements()
  const shown = await Promise.all(asked.map(({ id, token }) => read(id, { token })))
  recorded.remove()
  expect(readsOf(recorded.texts)).toBeLessThan(asked.length / 2)
  for (const [place, { id, token }] of asked.entries()) {
    const { status, server } = shown[place] ?? {}
    if (token === stranger.token || id.startsWith('srv_nowhere')) {
      expect([id, status, server]).toEqual([id, token === stranger.token ? status : 404, undefined])
      expect([403, 404]).toContain(status)
      continue
    }
    expect([status, server?.id]).toEqual([200, id])
    expect(server?.environment).toEqual({ HIDDEN: token === owner.token ? '********' : 'out-of-sight' })
    // Alone it is the same.
    expect((await read(id, { token })).server).toEqual(server)
  }
})

test('no read that begins after an edit was answered shows what was before, and no ETag stands for two texts', async () => {
  const servers = await make(6)
  const ids = servers.map(({ id }) => id)
  /** The number of the last edit that was answered. */
  const written = new Map<string, number>(ids.map((id) => [id, 0]))
  const texts = new Map<string, string>()
  let isOver = false
  let unchanged = 0
  await Promise.all(ids.map((id) => describeAs(id, '0')))

  async function readOn(id: string, token: string): Promise<void> {
    let known: Shown | undefined
    while (!isOver) {
      const atLeast = written.get(id) ?? 0
      const now = await read(id, { token, known: known?.etag ?? '' })
      if (now.status === 304) unchanged += 1
      const server: Server | undefined = now.status === 304 ? known?.server : now.server
      expect(String(server?.id)).toBe(id)
      expect(Number(server?.description)).toBeGreaterThanOrEqual(atLeast)
      const text = JSON.stringify(server)
      expect(texts.get(`${token} ${id} ${now.etag}`) ?? text).toBe(text)
      texts.set(`${token} ${id} ${now.etag}`, text)
      known = { ...now, server }
    }
  }
  async function write(): Promise<void> {
    for (let round = 1; round <= 12; round++) {
      const chosen = ids.filter((_, at) => at % 2 === round % 2 || round % 5 === 0)
      const edits = chosen.map(async (id) => {
        expect((await describeAs(id, `${round}`)).description).toBe(`${round}`)
        written.set(id, round)
      })
      await Promise.all(edits)
      for (const id of chosen) expect((await stage.get(id)).description).toBe(`${round}`)
    }
  }
  const tokens = [stage.panel.adminToken, stage.panel.adminToken, owner.token]
  const readers = ids.flatMap((id) => tokens.map((token) => readOn(id, token)))
  try {
    await Promise.race([write(), ...readers])
  } finally {
    isOver = true
    await Promise.all(readers)
  }
  expect(unchanged).toBeGreaterThan(0)
})

test('an edit of one server leaves the cached answers of others as they are', async () => {
  const servers = await make(8)
  const [changed, ...others] = servers.map(({ id }) => id)
  const all = () => Promise.all(servers.map(({ id }) => read(id)))
  // Read together, so that each keeps what is its own alone.
  for (let round = 0; round < 3; round++) await all()
  const before = await all()
  await describeAs(changed ?? '', 'changed')
  const recorded = recordStatements()
  const after = await Promise.all(others.map((id) => read(id, { known: before[servers.length - 1]?.etag ?? '' })))
  const ofOthers = readsOf(recorded.texts)
  const own = await read(changed ?? '')
  recorded.remove()
  expect(ofOthers).toBe(0)
  expect(readsOf(recorded.texts)).toBe(1)
  expect(own.server?.description).toBe('changed')
  expect(after.map(({ etag }) => etag)).toEqual(before.slice(1).map(({ etag }) => etag))
  expect(after.at(-1)?.status).toBe(304)
})

test('a read that fails is refused to all who wait for it, and the next ones are answered', async () => {
  const servers = await make(20)
  const all = () => Promise.all(servers.map(({ id }) => read(id)))
  for (let round = 0; round < 3; round++) {
    const planted = plantFaults(({ sql }) =>
      sql.includes('json_each') && /from "server" inner join/.test(sql) ? 'SQLITE_IOERR' : undefined,
    )
    const refused = await all()
    planted.remove()
    expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([503]))
  }
  const shown = await all()
  expect(shown.map(({ server }) => server?.id)).toEqual(servers.map(({ id }) => id))
})
