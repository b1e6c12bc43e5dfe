import fc from 'fast-check'
import { pause, until } from '../e2e/wait.ts'
import { disobedience, lies, type Rest, trailLies, typingLies } from './walk-check.ts'
import { lookAt } from './walk-look.ts'
import { type Walker, WalkStage } from './walk-stage.ts'
import { type Deeds, noDeeds, type Step, steps, take } from './walk-steps.ts'
import { WalkTrails } from './walk-trails.ts'

/** An agent that was refused several times in a row waits up to 30 s. */
const ONLINE_MS = 60_000
/** Longer than a server takes to count as running whose ready line was lost with its holder. */
const REST_MS = 150_000
/** Steps from one rest to the next. */
const MOST_STEPS = 16

/** How far a walk goes: so many rounds, or rounds until so many milliseconds have passed. */
export interface Way {
  readonly seed: number
  readonly rounds?: number
  readonly forMs?: number
  /** Now and then a cable is cut for longer than a connection lives without a byte. */
  readonly longCuts?: boolean
}

/**
 * Takes steps at random and rests now and then. At each rest everything that can be seen from outside is compared; the
 * first thing that is not so ends the walk with its seed and the steps since the rest before.
 */
export async function walk({ seed, rounds = Number.POSITIVE_INFINITY, forMs = Number.POSITIVE_INFINITY, ...way }: Way) {
  const stage = await WalkStage.enter()
  try {
    const walk = new Walk(stage)
    await walk.begin()
    const longCuts = way.longCuts ?? false
    const step = steps(stage.walkers.length, stage.nodes.length, { longCuts })
    const some = fc.array(step, { minLength: 1, maxLength: MOST_STEPS })
    const until = performance.now() + forMs
    let round = 0
    for (; round < rounds && performance.now() < until; round++) {
      const [taken = []] = fc.sample(some, { numRuns: 1, seed: seed + round })
      await walk.round(taken).catch((error: unknown) => {
        const reported = taken.map((step) => JSON.stringify(step)).join('\n')
        throw new Error(`seed ${seed}, round ${round}: ${String(error)}\n${reported}\n${stage.panel.log.slice(-6000)}`)
      })
    }
    return { rounds: round, ...walk.count }
  } finally {
    await stage.leave()
  }
}

class Walk {
  readonly #stage: WalkStage
  readonly #trails: WalkTrails
  /** Per server: what has been done in each round. */
  readonly #deeds = new Map<Walker, Deeds[]>()
  #seen = new Map<Walker, Rest['before']>()
  #steps = 0

  constructor(stage: WalkStage) {
    this.#stage = stage
    this.#trails = new WalkTrails(stage.panel)
  }

  get count() {
    const deeds = [...this.#deeds.values()].flat()
    return { steps: this.#steps, orders: deeds.reduce((sum, { orders, lost }) => sum + orders.length + lost, 0) }
  }

  async begin(): Promise<void> {
    for (const walker of this.#stage.walkers) this.#deeds.set(walker, [noDeeds()])
    this.#seen = await this.#look()
    await this.#trails.catchUp()
  }

  async round(taken: readonly Step[]): Promise<void> {
    for (const all of this.#deeds.values()) all.push(noDeeds())
    const deedsOf = (walker: Walker): Deeds => this.#deeds.get(walker)?.at(-1) ?? noDeeds()
    const goes = async (client: number): Promise<void> => {
      for (const step of taken.filter((step) => step.client === client)) {
        await take(this.#stage, step, deedsOf)
        await pause(step.gapMs)
      }
    }
    // All of them are over before a failure of one is reported.
    const ends = await Promise.allSettled(this.#stage.clients.map((_, client) => goes(client)))
    for (const end of ends) if (end.status === 'rejected') throw end.reason
    this.#steps += taken.length
    await this.#rest()
  }

  /** Waits until what the API says is so and every order's end is told; then nothing may be wrong, and stay so. */
  async #rest(): Promise<void> {
    for (const { node } of this.#stage.nodes) await this.#stage.panel.online(node, true, ONLINE_MS)
    const problems = async (): Promise<string[]> => {
      const seen = await this.#look()
      await this.#trails.catchUp()
      return [...this.#rests(seen)].flatMap((rest) => this.#problemsOf(rest))
    }
    let wrong: string[] = []
    const look = async (): Promise<boolean> => {
      wrong = await problems()
      return wrong.length === 0
    }
    await until('everything at rest and as it is said to be', look, REST_MS).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${wrong.join('\n')}`)
    })
    const seen = await this.#look()
    const again = await problems()
    if (again.length > 0) throw new Error(`it does not stay so:\n${again.join('\n')}`)
    this.#seen = seen
  }

  async #look(): Promise<Map<Walker, Rest['before']>> {
    const { walkers, panel } = this.#stage
    const sights = await lookAt(walkers)
    const seen = new Map<Walker, Rest['before']>()
    for (const walker of walkers) {
      const sight = sights.get(walker.server.id)
      if (sight !== undefined) seen.set(walker, { api: await panel.server(walker.server.id), sight })
    }
    return seen
  }

  *#rests(seen: ReadonlyMap<Walker, Rest['before']>): Iterable<Rest> {
    for (const [walker, { api, sight }] of seen) {
      const before = this.#seen.get(walker) ?? { api, sight }
      yield { walker, api, sight, before, deeds: this.#deeds.get(walker)?.at(-1) ?? noDeeds() }
    }
  }

  #problemsOf(rest: Rest): string[] {
    const all = this.#deeds.get(rest.walker) ?? []
    const wrong = [
      ...lies(rest),
      ...disobedience(rest, this.#trails),
      ...trailLies(this.#trails, rest.api, all),
      ...typingLies(rest, this.#trails),
    ]
    return wrong.map((problem) => `${rest.walker.character.name}: ${problem}`)
  }
}
