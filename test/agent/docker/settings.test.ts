// @module-tag long
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServerSpec } from '../../../src/shared/protocol/server-spec.ts'
import { quietPort } from '../../ports.ts'
import { skippedUnless } from '../../skips.ts'
import { AgentStage, GAME, gameSpec } from '../agent-stage.ts'
import { texts } from '../runtime/rig.ts'
import { EngineStage, noEngine, TestBridge } from './engine-stage.ts'
import { Registry } from './registry.ts'

const missing = noEngine()
const WHY_NOT = skippedUnless(missing === undefined, missing ?? '')
const LAN = 'panel-lan'
const STREET = 'panel-street'
const used: string[] = []
let bridge: TestBridge
let engine: EngineStage
let stage: AgentStage

describe.skipIf(missing !== undefined)(`what operators choose for servers in containers${WHY_NOT}`, () => {
  beforeAll(async () => {
    bridge = new TestBridge()
    engine = await EngineStage.begin(bridge.name)
    const ranges = { Config: [{ Subnet: '10.214.78.0/24', Gateway: '10.214.78.1' }] }
    await engine.post('/networks/create', { Name: LAN, Driver: 'bridge', IPAM: ranges })
    const street = { Config: [{ Subnet: '10.214.79.0/24', Gateway: '10.214.79.1' }] }
    await engine.post('/networks/create', {
      Name: STREET,
      Driver: 'macvlan',
      IPAM: street,
      Options: { parent: bridge.name },
    })
    stage = await AgentStage.enter()
    stage.docker = { sockets: [engine.socket], network: 'bridge' }
    await stage.startAgent()
  }, 60_000)

  afterAll(async () => {
    await stage.leave(used)
    for (const network of [LAN, STREET]) await engine.call('DELETE', `/networks/${network}`)
    await engine.end([])
    bridge.remove()
  }, 60_000)

  it('is in force: processors, disk time, memory with its overhead, and the warning where a node cannot', async () => {
    const id = 'srv_sizes'
    const limits = { memoryMb: 100, swapMb: 50, cpuCores: 1, diskMb: 100, pids: 64, cpuSet: '0', ioWeight: 300 }
    await run(spec(id, { limits }))
    const { HostConfig } = await engine.inspect(id)
    const memory = 115 * 1024 * 1024
    expect(HostConfig).toMatchObject({ CpusetCpus: '0', Memory: memory })
    expect(ioWeightOf((await stage.peer.report(id, 'running', ({ pid }) => pid !== null)).pid ?? 0)).toContain('300')
    // Where the kernel does not count swap the engine has none to give.
    expect([memory + 50 * 1024 * 1024, -1]).toContain(HostConfig['MemorySwap'])
    const reports = stage.peer.of('hello')[0]?.runtimes ?? []
    expect(reports.find(({ name }) => name === 'docker')).toMatchObject({ cpuSets: true, ioWeights: true })
    const wrong = { ...limits, cpuSet: '0,4000-4001' }
    const refused = await stage.peer.order('srv_wrong', 1, { op: 'start', spec: spec('srv_wrong', { limits: wrong }) })
    expect(refused.error?.message).toMatch(/^This node has no processor 4000, 4001; it has 0/)
  }, 30_000)

  it('is the network: behind a bridge a game listens on all that it has, and finds the machine at its gateway', async () => {
    const id = 'srv_bridged'
    const port = await quietPort()
    const configFiles: ServerSpec['configFiles'] = [
      {
        path: 'game.properties',
        parser: 'properties',
        create: true,
        set: [{ key: 'gateway', value: '{{config.docker.interface}}' }],
      },
    ]
    const startup = `echo "ip $SERVER_IP"; cat game.properties; ${GAME}`
    await run(spec(id, { startup, configFiles, ports: [{ ip: '127.0.0.1', port, primary: true }] }))
    const said = await linesOf(id)
    expect(said).toContain('ip 0.0.0.0')
    expect(said).toContain(`gateway=${bridge.gateway}`)
  }, 30_000)

  it('is a network of the engine in which it has the address of its pool, and ports that nobody else can have', {
    timeout: 30_000,
  }, async () => {
    const id = 'srv_lan'
    const port = await quietPort()
    const network = { name: LAN, ip: '10.214.78.77' }
    const startup = `echo "ip $SERVER_IP"; ( while :; do echo pong | nc -l -p "$SERVER_PORT"; done ) & ${GAME}`
    const ports = [{ ip: network.ip, port, primary: true }]
    await run(spec(id, { startup, network, ports, listens: 'tcp' }))
    expect(await linesOf(id)).toContain('ip 10.214.78.77')
    expect((await engine.inspect(id)).NetworkSettings.Networks[LAN]).toMatchObject({ IPAddress: network.ip })
    expect(await answerOf(network.ip, port)).toBe('pong\n')
    // One that the machine itself cannot reach is looked at from inside.
    const far = 'srv_street'
    const there = { name: STREET, ip: '10.214.79.9' }
    await run(spec(far, { startup, network: there, ports: [{ ...there, port, primary: true }], listens: 'tcp' }))
    expect(await linesOf(far)).toContain(`ip ${there.ip}`)
    // An address that is not of that network is one of the machine.
    const other = 'srv_other'
    const at = [{ ip: '127.0.0.1', port, primary: true }]
    await run(spec(other, { network: { name: LAN, ip: '127.0.0.1' }, ports: at }))
    expect(Object.keys((await engine.inspect(other)).NetworkSettings.Networks)).toEqual(['bridge'])
  })

  it('is the image, which a rebuild fetches anew; what is there stays in use while the registry is away', async () => {
    const id = 'srv_rebuilt'
    const registry = await Registry.start(engine.folder)
    try {
      const account = { username: 'robot', password: 'secret' }
      const image = `${registry.host}/team/game:3`
      writeFileSync(join(engine.folder, 'password'), 'secret\n')
      stage.docker = {
        ...stage.docker,
        registries: { [registry.host]: { username: 'robot', passwordFile: join(engine.folder, 'password') } },
      }
      await stage.stopAgent()
      await stage.startAgent()
      await engine.push(image, account)
      const made = spec(id, { image })
      await run(made)
      const first = (await engine.inspect(id)).Image
      expect(await stage.peer.order(id, 2, { op: 'rebuild', spec: made, thenStart: false })).toMatchObject({
        ok: false,
        error: { code: 'CONFLICT_STATE' },
      })
      await stage.peer.order(id, 3, { op: 'kill' })
      const { labels } = (await engine.listed()).find((one) => one.labels['panel.server'] !== undefined) ?? {
        labels: {},
      }
      await engine.create('left-over', { ...labels, 'panel.server': id })
      await engine.push(image, account)
      await engine.tag(image)
      const rebuilt = await stage.peer.order(id, 4, { op: 'rebuild', spec: made, thenStart: true })
      expect(rebuilt).toMatchObject({ ok: true })
      await stage.peer.report(id, 'running', ({ power }) => power === 'running')
      expect((await engine.inspect(id)).Image).not.toBe(first)
      expect(await engine.listed(id)).toHaveLength(1)
      expect(await systemLines(id)).toContain(`The image ${image} is new`)
      await stage.peer.order(id, 5, { op: 'kill' })
      await registry.stop()
      expect(await stage.peer.order(id, 6, { op: 'rebuild', spec: made, thenStart: false })).toMatchObject({ ok: true })
      expect((await systemLines(id)).join('\n')).toMatch(/could not be pulled: .*The one that is there stays in use/)
      const process = gameSpec('srv_process', 1)
      used.push('srv_process')
      expect(
        await stage.peer.order('srv_process', 1, { op: 'rebuild', spec: process, thenStart: false }),
      ).toMatchObject({
        ok: false,
        error: { code: 'BAD_REQUEST', message: expect.stringContaining('runs as a process') },
      })
    } finally {
      await registry.stop()
    }
  }, 60_000)

  function spec(id: string, change: Partial<ServerSpec> = {}): ServerSpec {
    used.push(id)
    return gameSpec(id, 1, { runtime: 'docker', image: 'game:1', ...change })
  }

  async function run(made: ServerSpec): Promise<void> {
    const done = await stage.peer.order(made.serverId, 1, { op: 'start', spec: made })
    expect(done, JSON.stringify(done.error)).toMatchObject({ ok: true })
    await stage.peer.report(made.serverId, 'running', ({ power }) => power === 'running')
  }

  const at = (id: string) => ({ serverId: id, files: '', state: join(stage.dataDir, 'state', id) })
  const linesOf = (id: string) => texts(at(id))
  const systemLines = (id: string) => texts(at(id), 'system')
})

/** The share of disk time of the group of a process, whichever version of the kernel's groups keeps it. */
function ioWeightOf(pid: number): string {
  const path = execFileSync('sh', ['-c', `sed -n 's/^[0-9]*:blkio://p' /proc/${pid}/cgroup`], {
    encoding: 'utf8',
  }).trim()
  return execFileSync('sh', ['-c', `cat /sys/fs/cgroup/blkio${path}/blkio.*weight`], { encoding: 'utf8' })
}

function answerOf(host: string, port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, host).setEncoding('utf8')
    socket.once('data', (text: string) => {
      resolve(text)
      socket.destroy()
    })
    socket.on('error', reject)
  })
}
