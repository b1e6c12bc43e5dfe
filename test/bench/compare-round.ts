import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { report } from '../daemon/agent-peer.ts'
import { DIST } from '../run-panel.ts'
import { BenchPanel } from './bench-panel.ts'
import { type Cost, costOf, cpuOf, cpuOfEndedChildren } from './cost.ts'
import { load, type Request, type Target } from './http-load.ts'
import { wakeupsPerSecond } from './idle-servers.ts'
import { ObedientAgent } from './obedience.ts'
import { allProcesses, Helper } from './processes.ts'
import { scattered, seedServers } from './seed.ts'
import { seedAudit } from './seed-audit.ts'
import { talkativeServer } from './talkative-server.ts'
import type { ViewerQuestion } from './viewers.ts'
import { pause } from './waiting.ts'
import { commandTarget, createTarget, emptyNode } from './writes.ts'

/** What one unit of some work (a request, a command, a second) costs. A smaller number is better; `perSecond` is a rate. */
export interface UnitCost {
  readonly unit: string
  readonly cpuMs: number
  readonly instructions: number | null
  readonly perSecond: number | null
  /** How often threads were woken up; where nothing is asked for. */
  readonly wakeups?: number
}

/** The costs of one build by name, as one round has measured them. */
export type RoundCosts = Record<string, UnitCost>

const SERVERS = 1000
const AUDIT_ROWS = 20_000
const CONNECTIONS = 8
/** Of mixed requests every so many is a write: 5 %. */
const WRITE_EVERY = 20
const WARM_MS = 600
const LOAD_MS = 1500
const COMMANDS = 10
const LINES_PER_SECOND = 2000
const VIEWERS = 20
const CONSOLE_MS = 3000
const IDLE_SERVERS = 20
const IDLE_MS = 5000
const SETTLE_MS = 1500

/** Measures the build that PANEL_TEST_DIST names once, and prints the costs as one JSON object. */
const parts = process.argv.slice(2)
const costs: RoundCosts = {}
if (parts.includes('requests') || parts.includes('commands')) Object.assign(costs, await withoutAgent())
if (parts.includes('writes')) Object.assign(costs, await writeCosts())
if (parts.includes('console')) Object.assign(costs, await consoleCosts())
if (parts.includes('idle')) Object.assign(costs, await idleCosts())
process.stdout.write(JSON.stringify(costs))

async function withoutAgent(): Promise<RoundCosts> {
  const panel = await BenchPanel.enter()
  try {
    const serverId = await seedServers(panel, SERVERS)
    await seedAudit(panel.database, AUDIT_ROWS)
    return {
      ...(parts.includes('commands') ? await commandCosts(panel) : {}),
      ...(parts.includes('requests') ? await requestCosts(panel, serverId) : {}),
    }
  } finally {
    await panel.leave()
  }
}

async function requestCosts(panel: BenchPanel, serverId: (index: number) => string): Promise<RoundCosts> {
  const { url, token } = panel
  const get = (path: string): Target => ({ url, token, path })
  // On from one load to the next: what was asked before would come from memory, and what was written before would change nothing.
  let asked = 0
  const someServer = (): string => `/api/servers/${serverId(scattered(asked++, SERVERS))}`
  const write: Request = {
    method: 'PATCH',
    path: someServer,
    body: () => JSON.stringify({ description: `changed for the ${asked}th time` }),
  }
  const mixed = { every: WRITE_EVERY, request: write }
  const costs: RoundCosts = {
    'public settings': await requestCost(panel, { url, path: '/api/settings/public' }),
    'own profile': await requestCost(panel, get('/api/auth/profile')),
    'list of nodes': await requestCost(panel, get('/api/nodes')),
    'list of 50 servers': await requestCost(panel, get('/api/servers?limit=50')),
    'view of a server': await requestCost(panel, get(`/api/servers/${serverId(SERVERS / 2)}`)),
    'page of the audit log': await requestCost(panel, get('/api/admin/audit-logs?limit=50')),
    'views of any servers, 5 % writes': await requestCost(panel, { url, token, path: someServer, among: mixed }),
    'list of 50 servers, 5 % writes': await requestCost(panel, { ...get('/api/servers?limit=50'), among: mixed }),
  }
  const agent = await ObedientAgent.enter(panel)
  const path = (count: number): string => `/api/servers/${serverId(count % SERVERS)}/start`
  costs['power order'] = await requestCost(panel, { url, token, method: 'POST', path, body: '{}' })
  await agent.leave()
  return costs
}

/** What needs servers that run: commands to their consoles; and creations, on a node of their own. */
async function writeCosts(): Promise<RoundCosts> {
  const panel = await BenchPanel.enter()
  try {
    const serverId = await seedServers(panel, SERVERS, { running: true })
    const servers = Array.from({ length: SERVERS }, (_, index) => report(serverId(index)))
    const agents = [await ObedientAgent.enter(panel, { servers })]
    const place = await emptyNode(panel)
    agents.push(await ObedientAgent.enter(panel, { nodeId: place.nodeId }))
    const costs = {
      'command to a console': await requestCost(panel, commandTarget(panel, serverId)),
      'creation of a server': await requestCost(panel, await createTarget(panel, place)),
    }
    for (const agent of agents) await agent.leave()
    return costs
  } finally {
    await panel.leave()
  }
}

async function requestCost(panel: BenchPanel, target: Target): Promise<UnitCost> {
  await load(target, CONNECTIONS, WARM_MS)
  let [answers, perSecond] = [0, 0]
  const cost = await costOf([panel.daemonPid], async () => {
    const made = await load(target, CONNECTIONS, LOAD_MS)
    answers = made.answers
    perSecond = made.perSecond
  })
  return { ...perUnit(cost, 'request', answers), perSecond }
}

/** A start of the daemon and some commands: whole processes, so their CPU time is all there is. */
async function commandCosts(panel: BenchPanel): Promise<RoundCosts> {
  const program = join(DIST, 'bin', 'panel.js')
  const costs: RoundCosts = {
    'panel --version': await commandCost([program, '--version'], panel),
    'panel servers --help': await commandCost([program, 'servers', '--help'], panel),
    'panel servers list': await commandCost([program, 'servers', 'list', '--limit', '50'], panel),
  }
  await panel.stopDaemon()
  await panel.startDaemon()
  const cpuMs = await cpuOf([panel.daemonPid])
  return { ...costs, 'start of the daemon': { unit: 'start', cpuMs, instructions: null, perSecond: null } }
}

async function commandCost(args: readonly string[], panel: BenchPanel): Promise<UnitCost> {
  const before = await cpuOfEndedChildren()
  for (let run = 0; run < COMMANDS; run++) {
    const child = spawn(process.execPath, args, { env: panel.env, stdio: 'ignore' })
    const [code] = await once(child, 'exit')
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`)
  }
  const cpuMs = ((await cpuOfEndedChildren()) - before) / COMMANDS
  return { unit: 'command', cpuMs, instructions: null, perSecond: null }
}

/** A game's lines to some viewers: what daemon, agent and holder pay for a thousand of them. */
async function consoleCosts(): Promise<RoundCosts> {
  const panel = await BenchPanel.enter()
  const viewers = new Helper('viewers')
  try {
    await panel.startAgent()
    const serverId = await talkativeServer(panel, LINES_PER_SECOND)
    const path = `/api/servers/${serverId}/console/stream?lines=0`
    const open: ViewerQuestion = { ask: 'open', url: panel.url, token: panel.token, path, count: VIEWERS }
    await viewers.ask(open)
    await pause(SETTLE_MS)
    const pids = [panel.daemonPid, panel.agentPid, ...(await holderPids(panel))]
    const cost = await costOf(pids, () => pause(CONSOLE_MS))
    const thousands = (cost.seconds * LINES_PER_SECOND) / 1000
    return { [`1,000 console lines to ${VIEWERS} viewers`]: perUnit(cost, '1,000 lines', thousands) }
  } finally {
    await viewers.end()
    await panel.leave()
  }
}

async function idleCosts(): Promise<RoundCosts> {
  const panel = await BenchPanel.enter()
  try {
    await panel.startAgent()
    const templateId = await panel.makeTemplate({
      name: 'Sleeper',
      startup: 'echo ready; exec sleep 1000000',
      startupDetection: { done: [{ kind: 'contains', value: 'ready' }], stripAnsi: true },
    })
    const made: string[] = []
    for (let i = 0; i < IDLE_SERVERS; i++) {
      made.push(await panel.makeServer({ name: `sleeper ${i}`, templateId, primaryPort: 30_000 + i }))
    }
    for (const id of made) await panel.running(id)
    await pause(SETTLE_MS)
    const holders = await holderPids(panel)
    const second = async (pids: readonly number[]): Promise<UnitCost> => {
      let woken = 0
      const cost = await costOf(pids, async () => {
        woken = await wakeupsPerSecond(pids, IDLE_MS)
      })
      return { ...perUnit(cost, 'second', cost.seconds), wakeups: woken }
    }
    return {
      [`${IDLE_SERVERS} idle holders`]: await second(holders),
      [`daemon and agent with ${IDLE_SERVERS} idle servers`]: await second([panel.daemonPid, panel.agentPid]),
    }
  } finally {
    await panel.leave()
  }
}

async function holderPids(panel: BenchPanel): Promise<number[]> {
  const all = await allProcesses()
  const isHolder = (line: string): boolean => line.includes('__holder') && line.includes(panel.home)
  return all.filter(({ commandLine }) => isHolder(commandLine)).map(({ pid }) => pid)
}

function perUnit({ cpuMs, instructions }: Cost, unit: string, units: number): UnitCost {
  const each = instructions === null ? null : instructions / units
  return { unit, cpuMs: cpuMs / units, instructions: each, perSecond: null }
}
