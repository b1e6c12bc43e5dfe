import { cpus } from 'node:os'
import { join } from 'node:path'
import { login } from '../../src/shared/api/auth.ts'
import { createUser } from '../../src/shared/api/users.ts'
import { createClient } from '../../src/shared/client.ts'
import type { BareOptions } from './bare-server.ts'
import { BenchPanel, ROOT } from './bench-panel.ts'
import { type Cost, costOf, cpuOf } from './cost.ts'
import { CpuQuota } from './cpu-quota.ts'
import {
  atLeast,
  atMost,
  type Figure,
  type Figures,
  type Measurement,
  median,
  notMeasured,
  shown,
  spread,
  under,
} from './figure.ts'
import { bodyOf, type Load, type LoadOptions, load, type Request, type Target } from './http-load.ts'
import { Helper, residentMiB } from './processes.ts'
import { scattered, seededId, seedServers } from './seed.ts'
import { seedAudit } from './seed-audit.ts'
import { pause } from './waiting.ts'

const SERVERS = 10_000
const AUDIT_ROWS = 100_000
const PAGE = 50
const WARM_MS = 1000
const ROUND_MS = 1000
const [FEW, MANY] = [32, 384]
/** Of each, in turn: what is left with many is said of rounds that follow each other, since a minute later the machine may be another. */
const ROUNDS = 4
/** Before the quota holds every case is asked so long, by so many: code that V8 has not compiled yet says nothing of a daemon that runs for weeks. */
const COMPILE = { ms: 2000, connections: 16 } as const
/** Cases by name, when not all are to be measured. */
const CASES = process.env['PANEL_BENCH_CASES']?.split(',')
/** A round with less answers than this for each connection would count waves, not a rate. */
const ANSWERS_EACH = 2
/** Of the mixed cases every so many requests is a write: 5 %. */
const WRITE_EVERY = 20
const MB_OF_MIB = 1.048576
/** Of the rate with few connections at least so much is left with many. */
const LEFT = 0.75
const LEFT_UNIT = `of the rate with ${FEW} connections is left with ${MANY}`
/** A floor that has used less of its one thread was held up by the load. */
const BUSY = 0.9

const BARE_WRITE: Request = { method: 'PATCH', path: '/bytes/write', body: '{"description":"changed"}' }

/** What is asked, what a bare route sends the same bytes for, and the part of its rate that is to be reached. */
interface Case {
  readonly request: Request
  readonly least: number | null
  /** Without it the administrator asks. */
  readonly token?: string | undefined
  readonly isMixed?: true
  readonly refusals?: 'allowed'
}

/** The daemon under a quota of one CPU against a bare route under the same quota. */
export const quotaOfOne: Measurement = (progress) => underQuota(1, progress)

/** The same with two CPUs, which a bare route of one thread cannot use. */
export const quotaOfTwo: Measurement = (progress) => underQuota(2, progress)

async function underQuota(count: number, progress: (text: string) => void): Promise<Figures> {
  const quotas = [await CpuQuota.make(count), await CpuQuota.make(count)]
  const missing = quotas.find((quota) => 'missing' in quota)
  const [ours, bares] = quotas.filter((quota) => quota instanceof CpuQuota)
  if (ours === undefined || bares === undefined) {
    return { all: notMeasured(missing !== undefined && 'missing' in missing ? missing.missing : 'no quota') }
  }
  const panel = await BenchPanel.enter()
  const bare = new Helper('bare-server')
  try {
    const { cases: all, write } = await casesOf(panel)
    const cases = Object.fromEntries(Object.entries(all).filter(([name]) => CASES?.includes(name) ?? true))
    const answers: Record<string, string> = { write: await bodyOf({ ...daemonOf(panel), ...write }) }
    for (const [name, { request, token }] of Object.entries(cases)) {
      answers[name] = await bodyOf({ ...daemonOf(panel, token), ...request })
    }
    const serverId = seededId(0)
    const options: BareOptions = {
      database: panel.database,
      scratch: join(panel.home, 'scratch.db'),
      serverId,
      answers,
    }
    const { url } = await bare.ask<{ url: string }>(options)
    const sidesOf = (name: string, each: Case): Sides => ({
      daemon: { ...daemonOf(panel, each.token), ...each.request, ...(each.isMixed === true ? among(write) : {}) },
      bare: { url, ...each.request, path: `/bytes/${name}`, ...(each.isMixed === true ? among(BARE_WRITE) : {}) },
      pids: { daemon: panel.daemonPid, bare: bare.pid },
      refusals: each.refusals,
    })
    for (const [name, each] of Object.entries(cases)) {
      const { daemon, bare } = sidesOf(name, each)
      await load(daemon, COMPILE.connections, COMPILE.ms)
      await load(bare, COMPILE.connections, COMPILE.ms / 10)
    }
    await atRest(panel.daemonPid)
    await ours.add(panel.daemonPid)
    await bares.add(bare.pid)
    const memory = watchMemory(panel.daemonPid)
    const figures: Figures = {}
    for (const [name, each] of Object.entries(cases)) {
      Object.assign(figures, await compare(name, each, sidesOf(name, each), { cpus: count, progress }))
      figures[`${name}.answer`] = bytesOf(name, Buffer.byteLength(answers[name] ?? ''))
    }
    const { mean, most } = memory.end()
    return {
      ...figures,
      'rss.mean': shown(mean, 'MB'),
      'rss.most': under(most, 180, 'MB'),
      'load.besides': shown(
        cpus().length - count,
        'CPUs that the load has for itself; without one, rates are for comparing only',
      ),
    }
  } finally {
    await bare.end()
    await panel.leave()
    await ours.end()
    await bares.end()
  }
}

/** Every so many requests a write. */
function among(request: Request): Pick<Target, 'among'> {
  return { among: { every: WRITE_EVERY, request } }
}

function bytesOf(name: string, bytes: number): Figure {
  return name === 'listOf50' ? atMost(bytes, 80_000, 'bytes') : shown(bytes, 'bytes')
}

function daemonOf({ url, token: ofRoot }: BenchPanel, token?: string): Pick<Target, 'url' | 'token'> {
  return { url, token: token ?? ofRoot }
}

async function casesOf(panel: BenchPanel): Promise<{ cases: Record<string, Case>; write: Request }> {
  await seedServers(panel, SERVERS)
  await seedAudit(panel.database, AUDIT_ROWS)
  const someServer = (): string => seededId(scattered(asked++, SERVERS))
  const page = (path: string) => () => `${path}?limit=${PAGE}&page=${1 + scattered(asked++, SERVERS / PAGE)}`
  const cases: Record<string, Case> = {
    publicSettings: { request: { path: '/api/settings/public' }, least: 0.4 },
    profile: { request: { path: '/api/auth/profile' }, least: 0.2 },
    oneServer: { request: { path: `/api/servers/${seededId(SERVERS / 2)}` }, least: 0.2 },
    oneServerMixed: { request: { path: () => `/api/servers/${someServer()}` }, least: 0.08, isMixed: true },
    nodes: { request: { path: '/api/nodes' }, least: 0.2 },
    auditPage: { request: { path: `/api/admin/audit-logs?limit=${PAGE}` }, least: 0.2 },
    auditPageMixed: { request: { path: page('/api/admin/audit-logs') }, least: 0.08, isMixed: true },
    listOf0: { request: { path: `/api/servers?limit=${PAGE}` }, least: null, token: await newcomer(panel) },
    listOf50: { request: { path: `/api/servers?limit=${PAGE}` }, least: 0.5 },
    listOf50Mixed: { request: { path: page('/api/servers') }, least: 0.12, isMixed: true },
    signIn: {
      request: { method: 'POST', path: '/api/auth/login', body: JSON.stringify(ROOT) },
      least: null,
      refusals: 'allowed',
    },
  }
  const write: Request = {
    method: 'PATCH',
    path: () => `/api/servers/${someServer()}`,
    // Never the same twice: what changes nothing leaves all answers as they were.
    body: () => JSON.stringify({ description: `changed for the ${++changes}th time` }),
  }
  return { cases, write }
}

let changes = 0
/** Goes on from one round to the next: what was asked in the round before would come from memory. */
let asked = 0

/** The token of an account that may see no server. */
async function newcomer(panel: BenchPanel): Promise<string> {
  const who = { email: 'new@example.org', password: 'Another horse 7 battery!' }
  await panel.client.call(createUser, { body: { ...who, username: 'newcomer', emailVerified: true } })
  const answer = await createClient({ baseUrl: panel.url, fetch }).call(login, { body: who })
  if (!('token' in answer)) throw new Error('the new account was not signed in')
  return answer.token
}

interface Sides {
  readonly daemon: Target
  readonly bare: Target
  readonly pids: Readonly<Record<'daemon' | 'bare', number>>
  readonly refusals: 'allowed' | undefined
}

interface Round {
  readonly load: Load
  readonly cost: Cost
  /** CPU of the load itself, of one. */
  readonly loadCpu: number
}

async function compare(
  name: string,
  { least }: Case,
  sides: Sides,
  { cpus: count, progress }: { readonly cpus: number; readonly progress: (text: string) => void },
): Promise<Figures> {
  const { few, many } = await rounds(sides)
  const ratios = few.daemon.map((round, i) => round.load.perSecond / (few.bare[i]?.load.perSecond ?? Number.NaN))
  const ratio = median(ratios)
  const rate = (of: readonly Round[]): number => median(of.map((round) => round.load.perSecond))
  const cpuMs = (of: readonly Round[]): number => median(of.map(({ load: { answers }, cost }) => cost.cpuMs / answers))
  const used = median(few.bare.map(({ cost }) => cost.cpuMs / cost.seconds / 1000))
  const leftOf = (side: 'daemon' | 'bare'): number =>
    median(many[side].map((round, i) => round.load.perSecond / (few[side][i]?.load.perSecond ?? Number.NaN)))
  const left = leftOf('daemon')
  progress(
    `${name}: ${rate(few.daemon).toFixed(0)}/s, bare ${rate(few.bare).toFixed(0)}/s, ratio ${ratio.toFixed(3)}, CPU ${cpuMs(few.daemon).toFixed(3)} ms; ${MANY} connections: ${rate(many.daemon).toFixed(0)}/s, left ${left.toFixed(2)}, bare ${leftOf('bare').toFixed(2)}; bare used ${used.toFixed(2)} CPUs`,
  )
  const part = 'of the bare route'
  const isTarget = count === 1
  return {
    [`${name}.ratio`]: isTarget && least !== null ? atLeast(ratio, least, part) : shown(ratio, part),
    [`${name}.cpuMs`]: shown(cpuMs(few.daemon), 'ms of CPU per request'),
    [`${name}.bareCpuMs`]: shown(cpuMs(few.bare), 'ms of CPU per request'),
    ...instructions(name, few.daemon),
    ...ofSide(`${name}.at${FEW}`, few),
    ...ofSide(`${name}.at${MANY}`, many),
    [`${name}.left`]: isTarget ? atLeast(left, LEFT, LEFT_UNIT) : shown(left, LEFT_UNIT),
    [`${name}.bareLeft`]: shown(leftOf('bare'), `${LEFT_UNIT}, of the bare route's`),
    [`${name}.bareUsed`]: shown(used, used < BUSY ? 'CPUs: the load held the floor up' : 'CPUs'),
    [`${name}.loadUsed`]: shown(median(few.bare.map(({ loadCpu }) => loadCpu)), 'CPUs, while the bare route answered'),
    [`${name}.noise`]: spread(ratios),
  }
}

function ofSide(name: string, { daemon, bare }: Readonly<Record<'daemon' | 'bare', readonly Round[]>>): Figures {
  const middle = (of: readonly Round[], what: (load: Load) => number): number =>
    median(of.map((round) => what(round.load)))
  const refused = middle(daemon, (load) => load.refusedPerSecond)
  return {
    [`${name}.perSecond`]: shown(
      middle(daemon, (load) => load.perSecond),
      'answers/s',
    ),
    [`${name}.barePerSecond`]: shown(
      middle(bare, (load) => load.perSecond),
      'answers/s',
    ),
    [`${name}.p50`]: shown(
      middle(daemon, (load) => load.p50),
      'ms',
    ),
    [`${name}.p99`]: shown(
      middle(daemon, (load) => load.p99),
      'ms',
    ),
    [`${name}.bareP99`]: shown(
      middle(bare, (load) => load.p99),
      'ms',
    ),
    ...(refused > 0 ? { [`${name}.refused`]: shown(refused, 'refusals/s') } : {}),
  }
}

function instructions(name: string, of: readonly Round[]): Figures {
  const each = of.flatMap(({ load: { answers }, cost }) =>
    cost.instructions === null ? [] : [cost.instructions / answers],
  )
  return each.length === 0 ? {} : { [`${name}.instructions`]: shown(median(each), 'instructions per request') }
}

/** What both sides make of few connections and of many. */
async function rounds(sides: Sides): Promise<Record<'few' | 'many', Record<'daemon' | 'bare', Round[]>>> {
  const found = { few: { daemon: [], bare: [] }, many: { daemon: [], bare: [] } } as Awaited<ReturnType<typeof rounds>>
  const connectionsOf = { few: FEW, many: MANY } as const
  for (const connections of Object.values(connectionsOf)) {
    for (const who of ['daemon', 'bare'] as const) await load(sides[who], connections, WARM_MS, optionsOf(sides))
    await atRest(sides.pids.daemon)
  }
  for (let i = 0; i < ROUNDS; i++) {
    for (const who of ['daemon', 'bare'] as const) {
      for (const count of ['few', 'many'] as const) {
        found[count][who].push(await round(sides, who, connectionsOf[count], ROUND_MS))
      }
    }
  }
  return found
}

async function round(sides: Sides, who: 'daemon' | 'bare', connections: number, ms: number): Promise<Round> {
  const pid = sides.pids[who]
  const options = { ...optionsOf(sides), leastAnswers: ANSWERS_EACH * connections }
  let made: Load | undefined
  let loadCpu = 0
  const cost = await costOf([pid], async () => {
    const before = process.cpuUsage()
    made = await load(sides[who], connections, ms, options)
    const { user, system } = process.cpuUsage(before)
    loadCpu = (user + system) / 1e6 / made.seconds
  })
  if (made === undefined) throw new Error('no load was made')
  await atRest(pid)
  return { load: made, cost: { ...cost, seconds: made.seconds }, loadCpu }
}

function optionsOf({ refusals }: Sides): LoadOptions {
  return refusals === undefined ? {} : { refusals }
}

/** Requests whose clients have gone are still worked on: the next round begins when that is over. */
async function atRest(pid: number): Promise<void> {
  const [lookMs, most] = [100, 25]
  for (let look = 0; look < 300; look++) {
    const before = await cpuOf([pid])
    await pause(lookMs)
    if ((await cpuOf([pid])) - before < most) return
  }
  throw new Error(`process ${pid} has not come to rest`)
}

/** Looks at the memory of a process ten times a second, in MB. */
function watchMemory(pid: number): { end(): { mean: number; most: number } } {
  const seen: number[] = []
  const timer = setInterval(() => {
    residentMiB(pid).then(
      (size) => seen.push(size * MB_OF_MIB),
      () => undefined, // the process has ended, and with it the measurement
    )
  }, 100)
  return {
    end: () => {
      clearInterval(timer)
      return { mean: seen.reduce((sum, size) => sum + size, 0) / seen.length, most: Math.max(...seen) }
    },
  }
}
