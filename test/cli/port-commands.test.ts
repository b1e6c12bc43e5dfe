import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer as listen } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { walkPanel } from './command-walk.ts'
import { PORTS } from './port-paths.ts'

/** Says its addresses, as it was told of them in each way. */
const GAME = 'echo "up $SERVER_PORT $QUERY_PORT {{server.allocations.query.port}}"; cat game.conf; exec sleep 1000'

describe('ports of servers with a real agent', { timeout: 60_000 }, () => {
  let panel: TestPanel
  const { ok, json, refused, left } = walkPanel(PORTS, () => panel)
  beforeAll(async () => {
    panel = await startPanel({ agent: true })
    const set = [
      { key: 'query=', value: 'query={{server.allocations.query.ip}}:{{server.allocations.query.port}}' },
      { key: 'web=', value: 'web={{server.allocations.web.port}}' },
    ]
    await panel.client.call(createTemplate, {
      body: {
        name: 'game',
        startup: GAME,
        startupDetection: { done: [{ kind: 'contains', value: 'web=' }] },
        listens: null,
        ports: [{ name: 'query', role: 'query', protocol: 'udp', offset: 1, variable: 'QUERY_PORT' }],
        configFiles: [
          {
            path: 'game.conf',
            parser: 'properties',
            create: true,
            set: set.map(({ key, value }) => ({ key: key.slice(0, -1), value: value.slice(key.length) })),
          },
        ],
      },
    })
    await ok(['nodes', 'edit', 'local', '--port-range', '18300-18309, 18320'])
  })
  afterAll(() => panel.close())

  const make = ['servers', 'create', '--template', 'game', '--memory', '64', '--cpu', '0.1', '--disk', '64']
  const ports = async (name: string) =>
    Object.fromEntries(
      (await json(['servers', 'ports', 'list', name])).map((row: { name: string; port: number }) => [
        row.name,
        row.port,
      ]),
    )

  it('chooses ports that nobody listens on, tells the game of all of them, and moves them', async () => {
    const tcp = listen().listen(18_300, '127.0.0.1')
    const udp = createSocket('udp4').bind(18_303, '127.0.0.1')
    await Promise.all([once(tcp, 'listening'), once(udp, 'listening')])
    try {
      await ok([...make, '--name', 'one'])
      expect(await ports('one')).toEqual({ default: 18_301, query: 18_302 })
    } finally {
      tcp.close()
      udp.close()
    }
    expect(
      await json(['servers', 'ports', 'add', 'one', '--port', '18320', '--name', 'web', '--protocol', 'tcp']),
    ).toMatchObject({
      ...{ port: 18_320, role: 'other', isPrimary: false },
    })
    await refused(7, ['servers', 'ports', 'add', 'one', '--port', '18320'])
    await refused(8, ['servers', 'ports', 'add', 'one', '--port', '70000'])
    await ok(['servers', 'start', 'one', '--wait'])
    const said = await ok(['console', 'logs', 'one'])
    expect(said).toContain('up 18301 18302 18302')
    expect(said).toContain('query=127.0.0.1:18302')
    expect(said).toContain('web=18320')
    await refused(7, ['servers', 'ports', 'remove', 'one', 'web', '--yes'])
    await refused(7, ['servers', 'edit', 'one', '--port', '18305'])
    await ok(['servers', 'kill', 'one', '--wait'])
    await ok(['servers', 'edit', 'one', '--port', '18305'])
    expect(await ports('one')).toEqual({ default: 18_305, query: 18_306, web: 18_320 })
    await ok(['servers', 'ports', 'primary', 'one', 'web'])
    expect(await ports('one')).toEqual({ default: 18_320, query: 18_321, web: 18_305 })
    await refused(8, ['servers', 'ports', 'primary', 'one', 'query'])
    await refused(8, ['servers', 'ports', 'remove', 'one', 'query', '--yes'])
    await ok(['servers', 'ports', 'remove', 'one', '127.0.0.1:18305', '--yes'])
    await refused(6, ['servers', 'ports', 'remove', 'one', 'web', '--yes'])
    await ok(['servers', 'ports', 'remove', 'one', 'web', '--yes', '--ignore-not-found'])
    expect(await ok(['servers', 'view', 'one'])).toContain('query=18321')
    await ok(['servers', 'delete', 'one', '--confirm', 'one', '--wait'])
    expect(await json(['allocations', 'list', '--node', 'local', '--assigned'])).toEqual([])
  })

  it('starts beside what speaks another protocol, and not beside what has a port of it', async () => {
    await ok([...make, '--name', 'two', '--port', '18307'])
    const tcp = listen().listen(18_308, '127.0.0.1')
    await once(tcp, 'listening')
    await ok(['servers', 'start', 'two', '--wait'])
    await ok(['servers', 'kill', 'two', '--wait'])
    tcp.close()
    const udp = createSocket('udp4').bind(18_308, '127.0.0.1')
    await once(udp, 'listening')
    const failed = await refused(11, ['servers', 'start', 'two', '--wait'])
    expect(failed.stderr).toContain('Port 127.0.0.1:18308 (UDP) is in use')
    udp.close()
    await once(udp, 'close')
    await ok(['servers', 'start', 'two', '--wait'])
    await ok(['servers', 'kill', 'two', '--wait'])
  })

  it('leaves no command out, and refuses ranges that are none', async () => {
    for (const range of ['a-b', '1-2-3', '-5']) await refused(2, ['nodes', 'edit', 'local', '--port-range', range])
    await refused(8, ['nodes', 'edit', 'local', '--port-range', '70000'])
    expect(await json(['nodes', 'edit', 'local', '--port-range', 'none'])).toMatchObject({ portRanges: [] })
    expect(left()).toEqual([])
  })
})
