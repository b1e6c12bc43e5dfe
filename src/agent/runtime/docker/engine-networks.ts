import { BlockList, isIP } from 'node:net'
import { record } from '../../engine/container-state.ts'
import { type Engine, isMissing } from '../../engine/engine.ts'
import { AgentFailure } from '../../failure.ts'
import type { OwnNetwork, RunNetwork } from '../runtime.ts'

/** The network that a container is connected to. */
export interface ContainerNetworkChoice extends RunNetwork {
  /** Its name with the engine; `host`: that of the machine. */
  readonly name: string
  /** The address of its own that the container gets in it; `null`: the engine chooses one. */
  readonly address: string | null
}

/** Names that mean something else to an engine than a network of that name. */
const RESERVED: ReadonlySet<string> = new Set(['host', 'none', 'default', 'bridge', 'container'])
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/
const HOST: ContainerNetworkChoice = {
  name: 'host',
  address: null,
  listenIp: null,
  machineIp: '127.0.0.1',
  isOwn: false,
}

/**
 * The network of a server that has an address of a pool: the engine's own network of that name, where the address is in
 * its range; else that of the node, at which the address is one of the machine's. Rejects with UNSUPPORTED when the network of
 * the node is not there.
 */
export async function chooseNetwork(
  engine: Engine,
  nodeNetwork: string,
  own: OwnNetwork | undefined,
): Promise<ContainerNetworkChoice> {
  const named = own === undefined || RESERVED.has(own.name) ? undefined : await findNetwork(engine, own.name)
  if (own !== undefined && named?.has(own.ip) === true) {
    return { name: own.name, address: own.ip, listenIp: null, machineIp: named.gateway ?? own.ip, isOwn: true }
  }
  if (nodeNetwork === 'host') return HOST
  // Podman's usual network has another name, and it knows this one as a kind of network.
  const isUsual = nodeNetwork === 'bridge'
  const found = (await findNetwork(engine, nodeNetwork)) ?? (isUsual ? await findNetwork(engine, 'podman') : undefined)
  if (found === undefined && !isUsual) {
    throw new AgentFailure(
      'UNSUPPORTED',
      `The container engine has no network ${nodeNetwork}; see docker.network of the agent`,
    )
  }
  const machineIp = found?.gateway ?? '127.0.0.1'
  return { name: nodeNetwork, address: null, listenIp: '0.0.0.0', machineIp, isOwn: false }
}

interface EngineNetwork {
  readonly gateway: string | undefined
  /** Whether an address is in one of its ranges. */
  has(ip: string): boolean
}

async function findNetwork(engine: Engine, name: string): Promise<EngineNetwork | undefined> {
  if (!NAME.test(name)) return undefined
  try {
    const { IPAM: ipam, Name: called } = record(await engine.json({ method: 'GET', path: `/networks/${name}` }))
    // An engine also finds a network by the beginning of its id.
    if (called !== name) return undefined
    const { Config: config } = record(ipam ?? {})
    const ranges = (Array.isArray(config) ? config : []).map((range: unknown) => record(range))
    const gateways = ranges.flatMap(({ Gateway: ip }) => (typeof ip === 'string' && isIP(ip) !== 0 ? [ip] : []))
    const list = blockList(ranges.map(({ Subnet: subnet }) => String(subnet)))
    const family = (ip: string): 'ipv4' | 'ipv6' => (isIP(ip) === 6 ? 'ipv6' : 'ipv4')
    const gateway = gateways.find((ip) => isIP(ip) === 4) ?? gateways[0]
    return { gateway, has: (ip) => isIP(ip) !== 0 && list.check(ip, family(ip)) }
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

function blockList(subnets: readonly string[]): BlockList {
  const list = new BlockList()
  for (const subnet of subnets) {
    const [ip = '', bits] = subnet.split('/')
    const version = isIP(ip)
    const prefix = Number(bits)
    if (version === 0 || !Number.isInteger(prefix) || prefix < 0 || prefix > (version === 6 ? 128 : 32)) continue
    list.addSubnet(ip, prefix, version === 6 ? 'ipv6' : 'ipv4')
  }
  return list
}
