import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { containerPlan } from '../../src/agent/runtime/docker/container-plan.ts'
import type { ServerSpec } from '../../src/shared/protocol/server-spec.ts'
import { quietPort } from '../ports.ts'
import { AgentStage, gameSpec } from './agent-stage.ts'

type Ports = ServerSpec['ports']

describe('the look at ports before a start', () => {
  let stage: AgentStage
  const used: string[] = []
  beforeAll(async () => {
    stage = await AgentStage.enter()
    await stage.startAgent()
  }, 60_000)
  afterAll(() => stage.leave(used), 60_000)

  /** The code that a start is refused with; `undefined`: the game runs, and is ended again. */
  async function startWith(ports: Ports, change: Partial<ServerSpec> = {}): Promise<string | undefined> {
    const id = `srv_ports${used.length}`
    used.push(id)
    const done = await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1, { ports, ...change }) })
    if (done.ok) await stage.peer.order(id, 2, { op: 'kill' })
    return done.error?.code
  }

  async function beside(
    { protocol, ip, port }: { readonly protocol: 'tcp' | 'udp'; readonly ip: string; readonly port: number },
    work: () => Promise<void>,
  ): Promise<void> {
    if (protocol === 'tcp') {
      const server = createServer().listen(port, ip)
      await once(server, 'listening')
      await work().finally(() => server.close())
      return
    }
    const socket = createSocket('udp4').bind(port, ip)
    await once(socket, 'listening')
    await work().finally(() => socket.close())
  }

  it('looks at each port by its protocol', async () => {
    const [own, further] = [await quietPort(), await quietPort()]
    const primary = { ip: '127.0.0.1', port: own, primary: true }
    const port = { ip: '127.0.0.1', port: further, primary: false, name: 'query' }
    await beside({ protocol: 'tcp', ip: '127.0.0.1', port: further }, async () => {
      expect(await startWith([primary, { ...port, protocol: 'udp' }])).toBeUndefined()
      expect(await startWith([primary, { ...port, protocol: 'tcp' }])).toBe('PORT_IN_USE')
      expect(await startWith([primary, { ...port, protocol: 'both' }])).toBe('PORT_IN_USE')
      expect(await startWith([primary, port], { listens: 'udp' })).toBe('PORT_IN_USE')
    })
    await beside({ protocol: 'udp', ip: '127.0.0.1', port: further }, async () => {
      expect(await startWith([primary, { ...port, protocol: 'tcp' }])).toBeUndefined()
      expect(await startWith([primary, { ...port, protocol: 'udp' }])).toBe('PORT_IN_USE')
    })
    await beside({ protocol: 'tcp', ip: '127.0.0.1', port: own }, async () => {
      expect(await startWith([primary], { listens: 'udp', done: [] })).toBeUndefined()
    })
  })

  it('looks at all addresses for a game that binds them', async () => {
    const port = await quietPort()
    const ports = [{ ip: '127.0.0.1', port, primary: true }]
    await beside({ protocol: 'udp', ip: '127.0.0.2', port }, async () => {
      expect(await startWith(ports)).toBeUndefined()
      expect(await startWith(ports, { bindsAll: true })).toBe('PORT_IN_USE')
    })
    expect(await startWith(ports, { bindsAll: true })).toBeUndefined()
  })

  it('takes a role and a protocol of a newer daemon for none', async () => {
    const port = { ip: '127.0.0.1', port: await quietPort(), primary: true, role: 'voice', protocol: 'quic' }
    expect(await startWith([port as never])).toBeUndefined()
  })
})

describe('the ports of a container', () => {
  it('are published by their protocol, the primary one by both', () => {
    const ports = [
      { ip: '10.0.0.5', port: 1000 },
      { ip: '10.0.0.5', port: 1001, protocol: 'udp' as const },
      { ip: '10.0.0.5', port: 1002, protocol: 'tcp' as const },
    ]
    const plan = containerPlan(
      {
        kind: 'game',
        argv: ['/bin/sh'],
        env: {},
        ports,
        limits: { memoryMb: 0, swapMb: 0, cpuCores: 0, pids: 0 },
      } as never,
      {
        image: 'game',
        network: 'bridge',
        labels: {},
        uid: 1,
        isRoot: true,
        hasEntrypoint: false,
        init: true,
        files: '/f',
      } as never,
    ) as { ExposedPorts: object; HostConfig: { PortBindings: object } }
    const names = ['1000/tcp', '1000/udp', '1001/udp', '1002/tcp']
    expect(Object.keys(plan.ExposedPorts)).toEqual(names)
    expect(plan.HostConfig.PortBindings).toEqual(
      Object.fromEntries(names.map((name) => [name, [{ HostIp: '10.0.0.5', HostPort: name.slice(0, 4) }]])),
    )
  })
})
