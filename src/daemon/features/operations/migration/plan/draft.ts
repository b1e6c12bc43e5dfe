import type { Lost, PlanConflict, PlanItem } from '../../../../../shared/api/migration.ts'
import type { MigrationPhase } from '../../../../../shared/kernel/migration.ts'
import { contentHash, stepId } from './content-hash.ts'
import type { TargetState } from './state.ts'

/** A step as it is stored. */
export interface PlannedStep {
  readonly id: string
  readonly phase: MigrationPhase
  readonly action: string
  readonly name: string
  readonly sourceType: string
  readonly sourceId: string
  /** Where it is known before. */
  readonly targetId: string | null
  /** Skipped from the beginning, for this reason. */
  readonly skipped: string | null
  /** Failed from the beginning: a difference that a comparison has found. */
  readonly failed?: { readonly code: string; readonly text: string }
  /** Ids of the steps that must be completed before, or skipped because their thing is there. */
  readonly needs: readonly string[]
  /** Ids of the steps that must be over before, however they went. */
  readonly follows: readonly string[]
  readonly input: Readonly<Record<string, unknown>>
}

/** What becomes of one thing of the source. */
export type Op = PlanItem['op']

/** One piece of work, before it has its ids. */
export interface NewItem {
  readonly phase: MigrationPhase
  readonly action: string
  readonly type: string
  readonly id: string
  readonly name: string
  readonly target: PlanItem['target']
  readonly op: Op
  readonly reason?: string | undefined
  readonly needs?: readonly (string | undefined)[]
  readonly follows?: readonly (string | undefined)[]
  readonly input: Readonly<Record<string, unknown>>
  readonly bytes?: number | null
}

/** The longest name of most things here. */
const NAME_LENGTH = 100

/** A plan while it is made: it collects what is to be done, what is in the way, and what is lost, in the order in which it is said. */
export class Draft {
  readonly items: PlanItem[] = []
  readonly steps: PlannedStep[] = []
  readonly conflicts: PlanConflict[] = []
  readonly warnings: string[] = []
  readonly lost: Lost[] = []
  readonly #fingerprint: string
  readonly #brought: TargetState['brought']
  /** Names that this plan gives, in lower case, by kind. */
  readonly #names = new Map<string, Set<string>>()
  readonly #ids = new Set<string>()
  /** Ids of steps that bring a thing, by `type id`. */
  readonly #brings = new Map<string, string>()
  #requests = 0

  constructor({ fingerprint, brought }: { readonly fingerprint: string; readonly brought: TargetState['brought'] }) {
    this.#fingerprint = fingerprint
    this.#brought = brought
  }

  /** How often the source is going to be asked, about. */
  get requests(): number {
    return this.#requests
  }

  /** Writes down one piece of work; answers the id of its step. What a source names twice is done once. */
  add(item: NewItem): string {
    const { phase, action, type, id, name, target, op, reason, input } = item
    const step = stepId(this.#fingerprint, action, type, id)
    if (this.#ids.has(step)) {
      if (action.startsWith('import_')) this.warn(`${type} ${name}: the source has the id ${id} more than once`)
      return step
    }
    this.#ids.add(step)
    const needs = [...new Set((item.needs ?? []).filter((one) => one !== undefined))]
    const follows = [...new Set((item.follows ?? []).filter((one) => one !== undefined))]
    const planned = { stepId: step, phase, action, source: { type, id, name }, target, op }
    this.items.push({ ...planned, reason: reason ?? null, bytesEstimate: item.bytes ?? null })
    const skipped = op === 'skip' ? (reason ?? 'policy') : null
    const targetId = target?.id ?? null
    const place = { sourceType: type, sourceId: id }
    this.steps.push({ id: step, phase, action, name, ...place, targetId, skipped, needs, follows, input })
    this.#brings.set(`${type} ${id}`, this.#brings.get(`${type} ${id}`) ?? step)
    // The server may be used when its files are in place, whether or not the source could be cleaned up.
    if (action === 'place_files') this.#brings.set(`files ${id}`, step)
    return step
  }

  /** Somebody has to decide this before the plan is carried out. */
  conflict(
    code: string,
    source: PlanConflict['source'],
    text: string,
    more: Partial<Pick<PlanConflict, 'target' | 'policy' | 'policyOptions'>> = {},
  ): void {
    this.conflicts.push({ code, source, text, target: null, policy: null, policyOptions: [], ...more })
  }

  /** Something that people should know, and nothing waits for. */
  warn(text: string): void {
    this.warnings.push(text)
  }

  /** So many requests more to the source. */
  ask(requests: number): void {
    this.#requests += requests
  }

  /** The step that brings a thing, if this plan has one. */
  bringing(thing: `${string} ${string}`): string | undefined {
    return this.#brings.get(thing)
  }

  /** How a thing stands that was brought before; `undefined`: it was not, or its target is gone. */
  again(
    type: string,
    id: string,
    source: object,
  ): { op: Op; targetId: string; reason: string | undefined } | undefined {
    const before = this.#brought.get(`${type} ${id}`)
    if (before === undefined || !before.isThere) return undefined
    const isSame = before.contentHash === contentHash(source)
    return { op: isSame ? 'skip' : 'update', targetId: before.targetId, reason: isSame ? 'unchanged' : undefined }
  }

  /** The name, or the name with the first number that nobody has. */
  freeName(kind: string, name: string, held: { has(name: string): boolean }, most = NAME_LENGTH): string {
    const given = this.#names.get(kind) ?? new Set<string>()
    this.#names.set(kind, given)
    const fits = (one: string) => !held.has(one) && !held.has(one.toLowerCase()) && !given.has(one.toLowerCase())
    let free = name.slice(0, most)
    for (let number = 2; !fits(free); number++) free = `${name.slice(0, most - `-${number}`.length)}-${number}`
    given.add(free.toLowerCase())
    return free
  }
}
