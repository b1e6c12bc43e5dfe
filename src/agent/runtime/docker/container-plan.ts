import { enforcedMemoryMb } from '../../holder/memory-limit.ts'
import type { RunPlan } from '../runtime.ts'

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
  readonly network: string
  readonly labels: Readonly<Record<string, string>>
}

/** The body of the engine's call that makes the container of a run. */
export function containerPlan(plan: RunPlan, options: ContainerOptions): object {
  const isGame = plan.kind === 'game'
  const home = CONTAINER_HOMES[plan.kind]
  const user = isGame || !options.isRoot ? `${options.uid}:${options.uid}` : '0:0'
  return {
    Image: options.image,
    User: user,
    WorkingDir: home,
    Env: Object.entries({ ...plan.env, HOME: home }).map(([name, value]) => `${name}=${value}`),
    ...(isGame && options.hasEntrypoint ? {} : { Entrypoint: [...plan.argv], Cmd: [] }),
    Labels: options.labels,
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    OpenStdin: true,
    StdinOnce: false,
    Tty: false,
    ...(isGame ? { ExposedPorts: exposedPorts(plan) } : {}),
    HostConfig: {
      ...limitsOf(plan),
      Init: options.init,
      Mounts: [{ Type: 'bind', Source: options.files, Target: home }, ...mountsOf(plan, home)],
      NetworkMode: options.network,
      ...(isGame && options.network !== 'host' ? { PortBindings: portBindings(plan) } : {}),
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

/** A limit of 0 or less is none; swap below 0 is as much as there is. */
function limitsOf({ limits }: RunPlan): object {
  const memory = enforcedMemoryMb(limits.memoryMb) * MIB
  return {
    ...(memory > 0 ? { Memory: memory, MemorySwap: limits.swapMb < 0 ? -1 : memory + limits.swapMb * MIB } : {}),
    ...(limits.cpuCores > 0 ? { NanoCpus: Math.round(limits.cpuCores * NANO_CPUS) } : {}),
    ...(limits.pids > 0 ? { PidsLimit: limits.pids } : {}),
  }
}

/** Files in memory are counted as the server's. */
function scratchMb({ limits }: RunPlan): number {
  return limits.memoryMb > 0 ? limits.memoryMb : 1024
}

/** A game's ports are the same inside and outside, by TCP and UDP. */
function exposedPorts({ ports }: RunPlan): object {
  return Object.fromEntries(ports.flatMap(({ port }) => [`${port}/tcp`, `${port}/udp`].map((name) => [name, {}])))
}

function portBindings({ ports }: RunPlan): object {
  const bindings: Record<string, object[]> = {}
  for (const { ip, port } of ports) {
    for (const name of [`${port}/tcp`, `${port}/udp`]) {
      bindings[name] = [...(bindings[name] ?? []), { HostIp: ip, HostPort: String(port) }]
    }
  }
  return bindings
}
