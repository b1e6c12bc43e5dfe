import { isIPv6 } from 'node:net'
import { enforcedMemoryMb } from '../../holder/memory-limit.ts'
import { terminalSize } from '../held-run.ts'
import type { RunPlan } from '../runtime.ts'
import type { ContainerNetworkChoice } from './engine-networks.ts'

/** Where a game sees its files, and an installation those that it fills. */
export const CONTAINER_HOMES = { game: '/home/container', install: '/mnt/server' } as const

const MIB = 1024 * 1024
const NANO_CPUS = 1_000_000_000
/** What the engine keeps of a container's output, which is read again only when an attachment has ended. */
const LOG_SIZE = '16m'
const LOG_FILES = '2'
/** What tools that install need; no more than an ordinary root of a container has, and less. */
const INSTALL_CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID', 'SETFCAP']

/** What the container of a run is made with beside its plan. */
export interface ContainerOptions {
  /** The server's folder on this machine. */
  readonly files: string
  /** The user and group of a game; an installation is root in its container where the agent is. */
  readonly uid: number
  readonly isRoot: boolean
  readonly image: string
  /** The image itself says how its program is started, from the variable STARTUP. */
  readonly hasEntrypoint: boolean
  /** The engine has a first process that hands signals on and clears away what has ended. */
  readonly init: boolean
  /** The engine is an ordinary user's: its root is that user, and other users of a container own nothing outside. */
  readonly isRootless: boolean
  /** The engine gives containers other users than the machine's unless they ask for the machine's. */
  readonly isRemapped: boolean
  readonly isCgroupV2: boolean
  readonly network: ContainerNetworkChoice
  readonly labels: Readonly<Record<string, string>>
}

/** The body of the engine's call that makes the container of a run. */
export function containerPlan(plan: RunPlan, options: ContainerOptions): object {
  const isGame = plan.kind === 'game'
  const home = CONTAINER_HOMES[plan.kind]
  const isEngineRoot = options.isRootless || (!isGame && options.isRoot)
  const { network } = options
  const terminal = terminalSize(plan)
  return {
    Image: options.image,
    User: isEngineRoot ? '0:0' : `${options.uid}:${options.uid}`,
    WorkingDir: home,
    Env: Object.entries({ ...plan.env, HOME: home }).map(([name, value]) => `${name}=${value}`),
    ...(isGame && options.hasEntrypoint ? {} : { Entrypoint: [...plan.argv], Cmd: [] }),
    Labels: options.labels,
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    OpenStdin: true,
    StdinOnce: false,
    Tty: terminal !== undefined,
    ...(isGame ? { ExposedPorts: exposedPorts(plan) } : {}),
    HostConfig: {
      ...limitsOf(plan, options.isCgroupV2),
      Init: options.init,
      // Engines of before pass it over; there the holder sets it a moment after the start.
      ...(terminal === undefined ? {} : { ConsoleSize: [terminal.rows, terminal.columns] }),
      Mounts: [{ Type: 'bind', Source: options.files, Target: home }, ...mountsOf(plan, home)],
      NetworkMode: network.name,
      ...(isGame && network.name !== 'host' && !network.isOwn ? { PortBindings: portBindings(plan) } : {}),
      // Each server has a user of its own, whom its files belong to.
      ...(options.isRemapped && !options.isRootless ? { UsernsMode: 'host' } : {}),
      ReadonlyRootfs: isGame,
      Tmpfs: {
        '/tmp': `rw,exec,nosuid,nodev,size=${scratchMb(plan)}m`,
        ...(isGame ? { '/run': 'rw,nosuid,nodev' } : {}),
      },
      CapDrop: ['ALL'],
      CapAdd: isGame ? [] : INSTALL_CAPABILITIES,
      SecurityOpt: ['no-new-privileges'],
      Privileged: false,
      LogConfig: { Type: 'json-file', Config: { 'max-size': LOG_SIZE, 'max-file': LOG_FILES } },
      OomScoreAdj: 200,
      RestartPolicy: { Name: 'no' },
    },
    ...(network.address === null ? {} : { NetworkingConfig: ownAddress(network.name, network.address) }),
  }
}

/** Folders of the node beside the server's own; what a folder has mounted in it later is not its to see. */
function mountsOf({ mounts = [] }: RunPlan, home: string): object[] {
  return mounts.map(({ source, target, readOnly }) => ({
    Type: 'bind',
    Source: source,
    Target: target.startsWith('/') ? target : `${home}/${target}`,
    ReadOnly: readOnly,
    BindOptions: { Propagation: 'private' },
  }))
}

/** The limits in the words of the engine. A limit of 0 or less is none; swap below 0 is as much as there is. */
export function limitsOf({ limits }: Pick<RunPlan, 'limits'>, isCgroupV2: boolean): object {
  const memory = enforcedMemoryMb(limits.memoryMb) * MIB
  return {
    ...(memory > 0 ? { Memory: memory, MemorySwap: limits.swapMb < 0 ? -1 : memory + limits.swapMb * MIB } : {}),
    ...(limits.cpuCores > 0 ? { NanoCpus: Math.round(limits.cpuCores * NANO_CPUS) } : {}),
    ...(limits.pids > 0 ? { PidsLimit: limits.pids } : {}),
    ...(limits.cpuSet === undefined ? {} : { CpusetCpus: limits.cpuSet }),
    // With version 1 of the kernel's groups the holder sees to it.
    ...(limits.ioWeight === undefined || !isCgroupV2 ? {} : { BlkioWeight: limits.ioWeight }),
  }
}

function ownAddress(network: string, ip: string): object {
  const config = isIPv6(ip) ? { IPv6Address: ip } : { IPv4Address: ip }
  return { EndpointsConfig: { [network]: { IPAMConfig: config } } }
}

/** Files in memory are counted as the server's. */
function scratchMb({ limits }: RunPlan): number {
  return limits.memoryMb > 0 ? limits.memoryMb : 1024
}

/** A game's ports are the same inside and outside, each by its protocol or, as the primary one, by TCP and UDP. */
function namesOf({ port, protocol = 'both' }: RunPlan['ports'][number]): string[] {
  return protocol === 'both' ? [`${port}/tcp`, `${port}/udp`] : [`${port}/${protocol}`]
}

function exposedPorts({ ports }: RunPlan): object {
  return Object.fromEntries(ports.flatMap((port) => namesOf(port).map((name) => [name, {}])))
}

function portBindings({ ports }: RunPlan): object {
  const bindings: Record<string, object[]> = {}
  for (const port of ports) {
    for (const name of namesOf(port)) {
      bindings[name] = [...(bindings[name] ?? []), { HostIp: port.ip, HostPort: String(port.port) }]
    }
  }
  return bindings
}
