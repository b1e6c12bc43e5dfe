import { once } from 'node:events'
import { mkdtemp, readdir, rm, utimes } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runPanel } from '../run-panel.ts'
import { type PanelPeer, PEER_TOKEN, startPanelPeer } from './panel-peer.ts'
import { me } from './peer-answers.ts'
import { runHere } from './run-here.ts'

let peer: PanelPeer
let home: string

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'panel-api-'))
  peer = await startPanelPeer()
})
afterAll(async () => {
  await peer.close()
  await rm(home, { recursive: true, force: true })
})

const run = (args: readonly string[], url = peer.url) =>
  runHere(args, { env: { HOME: home, PANEL_URL: url, PANEL_TOKEN: PEER_TOKEN }, input: '{}' })

describe('panel api', () => {
  it('asks the panel and nobody else', async () => {
    const before = peer.received.length
    for (const path of ['//127.0.0.1:1/x', '/\\127.0.0.1:1/x', 'http://127.0.0.1:1/x', '/../../x/../..//x']) {
      const ran = await run(['api', path], `${peer.url}/below`)
      expect(ran, path).toMatchObject({ code: 2, stdout: '' })
    }
    expect(peer.received.length).toBe(before)
  })

  it('keeps to the path that the panel is published under', async () => {
    await run(['api', 'servers'], `${peer.url}/games`)
    expect(peer.received.at(-1)).toMatchObject({ method: 'GET', path: '/games/api/servers' })
    await run(['openapi'], `${peer.url}/games/`)
    expect(peer.received.at(-1)).toMatchObject({ path: '/games/api/openapi.json' })
  })

  it('refuses a body beside fields, of which one would be lost', async () => {
    const ran = await run(['api', 'servers', '--field', 'a=1', '--input', '-'])
    expect(ran).toMatchObject({ code: 2, stderr: expect.stringContaining('--input is the whole body') })
  })
})

describe('against a panel that refuses writes', () => {
  let holder: Server
  let url: string

  beforeAll(async () => {
    const data = { ...me(), permissions: ['admin.write', 'server.start:srv_1'] }
    holder = createServer((request, response) => {
      if (request.method === 'GET') return response.end(JSON.stringify({ success: true, data }))
      const details = [
        { field: 'body.name', message: 'is required' },
        { field: 'body.other', message: 'is odd' },
      ]
      const error = 'The request is not valid: body.name is required'
      return response
        .writeHead(400)
        .end(JSON.stringify({ success: false, error, code: 'VALIDATION_ERROR', details, requestId: 'req_1' }))
    })
    holder.listen(0, '127.0.0.1')
    await once(holder, 'listening')
    url = `http://127.0.0.1:${(holder.address() as AddressInfo).port}` // it listens on TCP
  })
  afterAll(() => holder.close())

  it('names refused fields by their flags, and by their paths for programs', async () => {
    const ran = await run(['locations', 'create'], url)
    expect(ran).toEqual({
      code: 8,
      stdout: '',
      stderr:
        'panel: The request is not valid (VALIDATION_ERROR)\n  --name: is required\n  other: is odd\n  request req_1\n',
    })
    const env = { HOME: home, PANEL_URL: url, PANEL_TOKEN: PEER_TOKEN }
    const { stderr } = await runPanel(['locations', 'create', '-o', 'json'], { env })
    expect(stderr).toContain('"body.name"')
  })

  it.each<[string, number]>([
    ['admin.write', 0],
    ['admin.read', 0],
    ['server.start:srv_1', 0],
    ['server.start:srv_2', 5],
    ['server.start', 5],
    ['server.strat', 2],
  ])('auth can-i judges %s as the panel does: exit %i', async (permission, code) => {
    const stdout = { 0: 'yes\n', 5: 'no\n', 2: '' }[code]
    expect(await run(['auth', 'can-i', permission], url)).toMatchObject({ code, stdout })
  })
})

describe('live names', () => {
  const complete = (typed: string) => run(['__complete', '--', 'servers', 'view', typed])
  const cache = () => join(home, '.cache/panel/completion')

  it('are asked for once in 30 s and account, and leave nothing for long', async () => {
    expect((await complete('')).stdout).toMatch(/^demo\tsrv_/)
    expect((await complete('d')).stdout).toMatch(/^demo\tsrv_/)
    const asked = peer.received.length
    await complete('d')
    expect(peer.received.length).toBe(asked)
    const old = await readdir(cache())
    expect(old).toHaveLength(2)
    const longAgo = new Date(Date.now() - 31_000)
    for (const name of old) await utimes(join(cache(), name), longAgo, longAgo)
    await complete('de')
    expect(await readdir(cache())).toHaveLength(1)
  })
})
