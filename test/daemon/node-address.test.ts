import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  createDeploymentToken,
  createNode,
  createNodeKey,
  deleteNodeKey,
  enrollAgent,
  updateNode,
} from '../../src/shared/api/nodes.ts'
import type { NodeId } from '../../src/shared/kernel/ids.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { GatewayStage } from './gateway-stage.ts'

let panel: TestPanel
let stage: GatewayStage
let count = 0
beforeAll(async () => {
  panel = await startPanel()
  stage = new GatewayStage(panel)
})
afterAll(() => panel.close())
afterEach(() => stage.clear())

type Given = Partial<Record<'hostname' | 'publicAddress' | 'defaultIp', string>>

/** A node as somebody has added it. */
async function added(given: Given = {}): Promise<NodeId> {
  const body = { name: `address-${++count}`, locationId: panel.locationId as never, maxMemoryMb: 1024, maxCpuCores: 2 }
  return (await panel.client.call(createNode, { body: { ...body, ...given } })).id
}

/** A machine takes the node over; resolves with its key. */
async function enrolled(nodeId: NodeId, hostname = 'rack-9'): Promise<string> {
  const params = { nodeId }
  const { deploymentToken } = await panel.client.call(createDeploymentToken, { params, body: {} })
  return (await panel.as(undefined).call(enrollAgent, { body: { deploymentToken, hostname } })).apiKey
}

/** The agent of the machine says which addresses it has; resolves when it is in. */
async function says(nodeId: NodeId, key: string, addresses: string[]): Promise<void> {
  const peer = await stage.connect({ nodeId, key })
  await peer.enter({ addresses })
}

const addressesOf = async (nodeId: NodeId) => {
  const { publicAddress, defaultIp } = await stage.nodeNow(nodeId)
  return { publicAddress, defaultIp }
}

const edit = (nodeId: NodeId, body: Given) => panel.client.call(updateNode, { params: { nodeId }, body })

describe('a node that nobody gave an address', () => {
  it('is this machine until another one enrols, undecided until that says hello, and then has its first address that others reach', async () => {
    const nodeId = await added()
    expect(await addressesOf(nodeId)).toEqual({ publicAddress: '127.0.0.1', defaultIp: '127.0.0.1' })
    const key = await enrolled(nodeId)
    expect(await addressesOf(nodeId)).toEqual({ publicAddress: '0.0.0.0', defaultIp: '127.0.0.1' })
    await says(nodeId, key, ['127.0.0.1', '::1', '192.168.1.20', '10.0.0.7', '2001:db8::20'])
    expect(await addressesOf(nodeId)).toEqual({ publicAddress: '192.168.1.20', defaultIp: '192.168.1.20' })
    // A machine that gets other addresses later does not take its servers elsewhere.
    await says(nodeId, key, ['127.0.0.1', '192.168.1.99'])
    expect(await addressesOf(nodeId)).toEqual({ publicAddress: '192.168.1.20', defaultIp: '192.168.1.20' })
  })

  it('has the IPv6 address of a machine without another one', async () => {
    const nodeId = await added()
    await says(nodeId, await enrolled(nodeId), ['127.0.0.1', '::1', '2001:DB8::0:20'])
    expect(await addressesOf(nodeId)).toEqual({ publicAddress: '2001:db8::20', defaultIp: '2001:db8::20' })
  })

  it.each([
    { what: 'none', addresses: [] },
    { what: 'this machine alone', addresses: ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1'] },
    { what: 'no addresses', addresses: ['games.example.org', '192.168.1.20/24', '192.168.1', '0x7f000001', ''] },
    { what: 'what stands for all addresses', addresses: ['0.0.0.0', '::'] },
    { what: 'groups and broadcasts', addresses: ['224.0.0.1', '239.1.2.3', '255.255.255.255', 'ff02::1'] },
    { what: 'addresses of a single wire', addresses: ['169.254.7.7', 'fe80::1', 'fe80::1%eth0'] },
    { what: 'texts without an end', addresses: ['9'.repeat(100_000), `10.0.0.1;${' '.repeat(50_000)}rm -rf /`] },
  ])('takes nothing from an agent that names $what', async ({ addresses }) => {
    const nodeId = await added()
    const key = await enrolled(nodeId)
    await says(nodeId, key, addresses)
    expect(await addressesOf(nodeId)).toEqual({ publicAddress: '127.0.0.1', defaultIp: '127.0.0.1' })
  })

  it('takes the right one among wrong ones', async () => {
    const nodeId = await added()
    const wrong = ['0.0.0.0', '224.0.0.1', '169.254.7.7', 'fe80::1', 'x'.repeat(1000)]
    await says(nodeId, await enrolled(nodeId), [...wrong, '203.0.113.9'])
    expect(await addressesOf(nodeId)).toEqual({ publicAddress: '203.0.113.9', defaultIp: '203.0.113.9' })
  })
})

describe('an address that somebody has chosen', () => {
  const OTHERS = ['127.0.0.1', '192.168.1.20']

  it.each([
    {
      what: 'an address for players and one for servers',
      given: { publicAddress: '203.0.113.7', defaultIp: '10.0.0.5' },
      kept: { publicAddress: '203.0.113.7', defaultIp: '10.0.0.5' },
    },
    {
      what: 'this machine',
      given: { publicAddress: '127.0.0.1' },
      kept: { publicAddress: '127.0.0.1', defaultIp: '127.0.0.1' },
    },
    { what: 'the name of the machine', given: { hostname: 'box' }, kept: { publicAddress: 'box' } },
    {
      what: 'a name for players',
      given: { publicAddress: 'games.example.org' },
      kept: { publicAddress: 'games.example.org' },
    },
  ])('stays when a machine enrols and says hello: $what', async ({ given, kept }) => {
    const nodeId = await added(given)
    await says(nodeId, await enrolled(nodeId), OTHERS)
    expect(await addressesOf(nodeId)).toMatchObject(kept)
  })

  it('stays when it was chosen between enrolment and hello', async () => {
    const nodeId = await added()
    const key = await enrolled(nodeId)
    await edit(nodeId, { publicAddress: 'games.example.org', defaultIp: '10.0.0.5' })
    await says(nodeId, key, OTHERS)
    expect(await addressesOf(nodeId)).toEqual({ publicAddress: 'games.example.org', defaultIp: '10.0.0.5' })
  })

  it('is the one that players are shown where only that of the servers was chosen', async () => {
    const nodeId = await added()
    const key = await enrolled(nodeId)
    await edit(nodeId, { defaultIp: '10.0.0.5' })
    await says(nodeId, key, OTHERS)
    expect(await addressesOf(nodeId)).toEqual({ publicAddress: '10.0.0.5', defaultIp: '10.0.0.5' })
  })

  it('stays when a node is this machine by its name as well, and a machine enrols anew', async () => {
    const nodeId = await added()
    const params = { nodeId }
    const { apiKey } = await panel.client.call(createNodeKey, { params, body: {} })
    await says(nodeId, apiKey, OTHERS)
    expect(await addressesOf(nodeId)).toEqual({ publicAddress: '127.0.0.1', defaultIp: '127.0.0.1' })
    await panel.client.call(deleteNodeKey, { params })
    await says(nodeId, await enrolled(nodeId, ''), OTHERS)
    expect(await addressesOf(nodeId)).toEqual({ publicAddress: '127.0.0.1', defaultIp: '127.0.0.1' })
  })
})
