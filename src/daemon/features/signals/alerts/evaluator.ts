import { type Clock, now } from '../../../../shared/kernel/time.ts'
import type { Metrics } from '../../../core/metrics.ts'
import type { SystemErrors } from '../../../core/system-errors.ts'
import type { Db, Tx } from '../../../db/db.ts'
import type { HealthReport } from '../../fleet/nodes/stats.ts'
import { type OverdueBackup, overdueBackups } from '../../operations/backup-policies/overdue.ts'
import type { CurrentUsage } from '../../servers/servers/usage.ts'
import { type AlertRow, openOfTypes } from './alert-rows.ts'
import { crashFinding } from './event-watch.ts'
import {
  nodeAway,
  nodeThresholds,
  type Observation,
  type SeenNode,
  type SeenServer,
  serverThresholds,
} from './observations.ts'
import { type Finding, type RaiseDeps, raise, resolveOpen, type Subject } from './raise.ts'
import { ruleHolds } from './rule-holds.ts'
import { conditionsOf, enabledRules, findRule, type RuleRow } from './rule-rows.ts'

/** What the rules look at, and what they do with it. */
export interface EvaluatorDeps extends RaiseDeps {
  readonly db: Db
  readonly clock: Clock
  readonly systemErrors: SystemErrors
  readonly metrics: Pick<Metrics, 'rounds'>
  isOnline(nodeId: string): boolean
  health(nodeId: string): HealthReport | undefined
  usage(serverId: string): CurrentUsage | undefined
}

const PERIOD_MS = 30_000
const TYPES = ['resource_threshold', 'node_offline', 'server_crashed', 'backup_overdue'] as const

/** `crashed`: `null` when nobody knows, it is being started again, or its node is in maintenance. */
type ServerSeen = SeenServer & {
  readonly crashed: boolean | null
  readonly crash: Record<string, unknown>
  /** Backups of policies that are overdue. */
  readonly overdue: readonly OverdueBackup[]
}

/** By id. */
interface Seen {
  readonly servers: ReadonlyMap<string, ServerSeen>
  readonly nodes: ReadonlyMap<string, SeenNode>
  readonly nowMs: number
}

/**
 * Looks every 30 s whether what rules say holds. What lasts (`durationSeconds`) is counted from when this daemon has seen it
 * first; open alerts and cool-downs are rows, so that a restart neither forgets nor repeats one.
 */
export class Evaluator {
  readonly #deps: EvaluatorDeps
  readonly #startedMs: number
  /** When the present view (over, or recovered) of a rule's metric was first seen, by the clock that never jumps. */
  readonly #since = new Map<string, { readonly bad: boolean; readonly ms: number }>()

  constructor(deps: EvaluatorDeps) {
    this.#deps = deps
    this.#startedMs = deps.clock.nowMs()
  }

  /** Looks again and again until `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, systemErrors, metrics } = this.#deps
    const counted = (outcome: 'ok' | 'failed'): void => metrics.rounds.inc({ work: 'alert_rules', outcome })
    while (!signal.aborted) {
      await clock.sleep(PERIOD_MS, signal)
      if (signal.aborted) return
      try {
        await this.once()
        counted('ok')
      } catch (err) {
        log.error({ err }, 'cannot evaluate alert rules, retrying')
        systemErrors.capture(err, { component: 'alerts' })
        counted('failed')
      }
    }
  }

  /** Looks once at everything that rules are about. */
  async once(): Promise<void> {
    const { db } = this.#deps
    const rules = await enabledRules(db.read, TYPES)
    const openRows = await openOfTypes(db.read, TYPES)
    if (rules.length === 0 && openRows.length === 0) return
    const open = new Map(openRows.map((row) => [keyOf(row.ruleId, row.subjectId, row.metric), row]))
    const seen = await this.#look(rules)
    const looked = new Set<string>()
    for (const rule of rules) {
      // Rules about everything take their time with many servers: requests come first.
      await new Promise((resolve) => setImmediate(resolve))
      for (const one of this.#observations(rule, seen)) {
        const key = keyOf(rule.id, one.subject.id, one.metric)
        looked.add(key)
        await this.#evaluate(rule, one, { key, open: open.get(key) })
      }
    }
    for (const key of this.#since.keys()) if (!looked.has(key)) this.#since.delete(key)
    // What no rule looks at any more (a threshold was taken out, a node went into other hands) is nobody's alert.
    for (const [key, row] of open) if (!looked.has(key)) await this.#resolve(row)
  }

  *#observations(rule: RuleRow, { servers, nodes, nowMs }: Seen): Generator<Observation> {
    const conditions = conditionsOf(rule)
    for (const server of targetsOf(rule, 'server', servers)) {
      if (rule.type === 'resource_threshold') yield* serverThresholds(server, conditions, nowMs)
      if (rule.type === 'server_crashed') yield crashOf(server)
      if (rule.type === 'backup_overdue') yield overdueOf(server)
    }
    for (const node of targetsOf(rule, 'node', nodes)) {
      if (rule.type === 'resource_threshold') yield* nodeThresholds(node, conditions, nowMs)
      if (rule.type === 'node_offline') yield nodeAway(node, conditions, nowMs)
    }
  }

  async #evaluate(
    rule: RuleRow,
    one: Observation,
    { key, open }: { readonly key: string; readonly open: AlertRow | undefined },
  ): Promise<void> {
    const { db, clock } = this.#deps
    // The first look and its end are one: nothing has to last.
    if (one.bad === null || one.bad === (open !== undefined)) return void this.#since.delete(key)
    const nowMs = clock.monotonicMs()
    const known = this.#since.get(key)
    const begun = known?.bad === one.bad ? known.ms : nowMs
    this.#since.set(key, { bad: one.bad, ms: begun })
    if (nowMs - begun < (conditionsOf(rule).durationSeconds ?? 0) * 1000) return
    if (open !== undefined) await this.#resolve(open)
    else if (await ruleHolds({ q: db.read, now: now(clock) }, rule)) await this.#raise(rule, one)
  }

  async #raise(rule: RuleRow, one: Observation): Promise<void> {
    await this.#deps.db.write(async (tx) => {
      // What was changed or deleted since it was read is looked at in the next round.
      const still = await findRule(tx.q, rule.id)
      if (still?.updatedAt !== rule.updatedAt || !(await isThere(tx, one.subject))) return
      await raise(tx, this.#deps, still, one.finding())
    })
  }

  async #resolve({ id }: AlertRow): Promise<void> {
    await this.#deps.db.write((tx) => resolveOpen(tx, this.#deps, id, null))
  }

  async #look(rules: readonly RuleRow[]): Promise<Seen> {
    const { clock } = this.#deps
    const servers = rules.some(({ target, type }) => target !== 'node' && type !== 'node_offline')
    const nodes = rules.some(({ target, type }) => target !== 'server' && type !== 'server_crashed')
    const overdue = rules.some(({ type }) => type === 'backup_overdue')
    return {
      servers: byId(servers ? await this.#servers(overdue) : []),
      nodes: byId(nodes ? await this.#nodes() : []),
      nowMs: clock.nowMs(),
    }
  }

  async #servers(withOverdue: boolean): Promise<ServerSeen[]> {
    const { db, clock, isOnline, usage } = this.#deps
    const overdue = withOverdue ? await overdueBackups(db.read, clock.nowMs()) : new Map<string, OverdueBackup[]>()
    const rows = await db.read
      .selectFrom('server')
      .innerJoin('node', 'node.id', 'server.nodeId')
      .select(['server.id', 'server.name', 'server.nodeId', 'server.power', 'server.activity', 'server.crashed'])
      .select([
        'server.crashCount',
        'server.reason',
        'server.lastExitCode',
        'server.lastExitSignal',
        'node.maintenance',
      ])
      .where('deletingAt', 'is', null)
      .where('archivedAt', 'is', null)
      .where('suspendedAt', 'is', null)
      .execute()
    return rows.map(({ id, name, nodeId, power, ...row }) => {
      const maintenance = row.maintenance === 1
      const { crashCount, reason, lastExitCode: exitCode, lastExitSignal: exitSignal } = row
      return {
        id,
        name,
        alive: power === 'running' || power === 'starting' || power === 'stopping' || row.activity !== null,
        online: isOnline(nodeId) && power !== 'unknown',
        maintenance,
        usage: usage(id),
        crashed:
          maintenance || power === 'starting' || power === 'unknown' ? null : power === 'offline' && row.crashed === 1,
        crash: { crashCount, reason, exitCode, exitSignal },
        overdue: overdue.get(id) ?? [],
      }
    })
  }

  async #nodes(): Promise<SeenNode[]> {
    const { db, isOnline, health } = this.#deps
    const rows = await db.read.selectFrom('node').select(['id', 'name', 'maintenance', 'lastSeenAt']).execute()
    return rows.map(({ id, name, maintenance, lastSeenAt }) => ({
      id,
      name,
      maintenance: maintenance === 1,
      online: isOnline(id),
      // Nodes that lost this daemon were not away before it was back itself.
      awaySinceMs: lastSeenAt === null ? null : Math.max(Date.parse(lastSeenAt), this.#startedMs),
      health: health(id),
    }))
  }
}

function byId<T extends { readonly id: string }>(things: readonly T[]): ReadonlyMap<string, T> {
  return new Map(things.map((thing) => [thing.id, thing]))
}

/** What a rule is about, without a look at everything for each rule of one thing. */
function targetsOf<T>(rule: RuleRow, kind: 'server' | 'node', things: ReadonlyMap<string, T>): Iterable<T> {
  if (rule.target === 'global') return things.values()
  const one = rule.target === kind ? things.get(rule.targetId ?? '') : undefined
  return one === undefined ? [] : [one]
}

async function isThere({ q }: Tx, { kind, id }: Subject): Promise<boolean> {
  return (await q.selectFrom(kind).select('id').where('id', '=', id).executeTakeFirst()) !== undefined
}

function keyOf(ruleId: string | null, subjectId: string, metric: string): string {
  return `${ruleId} ${subjectId} ${metric}`
}

/** What a policy was to make and has not: its node is away, or its backups fail. Maintenance is no excuse, because backups go on in it. */
function overdueOf({ id, name, overdue }: ServerSeen): Observation {
  const subject = { kind: 'server' as const, id, name }
  const [first] = overdue
  const finding = (): Finding => ({
    subject,
    metric: '',
    severity: 'warning',
    title: `A backup of ${name} is overdue`,
    message: `The backup policy ${first?.policyName} was to back up the server ${name} at ${first?.dueAt}, and has not${first?.lastError == null ? '' : `: ${first.lastError}`}`,
    metadata: { policies: overdue.slice(0, 10) },
  })
  return { subject, metric: '', bad: overdue.length > 0, finding }
}

/** A crash that the events reported while the rule kept quiet, or before there was one: the server is still down. */
function crashOf({ id, name, crashed, crash }: ServerSeen): Observation {
  const subject = { kind: 'server' as const, id, name }
  return { subject, metric: '', bad: crashed, finding: () => crashFinding(subject, crash) }
}
