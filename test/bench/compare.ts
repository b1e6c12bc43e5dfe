import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Part } from './compare-parts.ts'
import type { RoundCosts, UnitCost } from './compare-round.ts'
import { median } from './figure.ts'

const ROUNDS = 5
/** A cost that is more than this above the other build's is not "not worse". */
const TOLERANCE = 1.05

/** `uncertain`: above the tolerance, but some round says otherwise, so the machine may have been busy. */
export type Verdict = 'not worse' | 'worse' | 'uncertain'

/** One cost of both builds: medians of all rounds, and the median of the rounds' own ratios (this build by the other). */
export interface Compared {
  readonly unit: string
  readonly cpuMs: Pair
  /** `null` where the machine does not count instructions. */
  readonly instructions: Pair | null
  /** Rates say little on a machine that does other things: they are shown and decide nothing. */
  readonly perSecond: Pair | null
  /** Of a second in which nothing is asked for; shown, as the CPU time of that second decides. */
  readonly wakeups: Pair | null
  /** By instructions where they are counted, else by CPU time. */
  readonly verdict: Verdict
}

interface Pair {
  readonly other: number
  readonly this: number
  readonly ratio: number
  /** The smallest and largest ratio of a round: how far the machine can be trusted. */
  readonly rounds: readonly [number, number]
}

/**
 * Measures two builds in turn, five rounds each, the order changed from round to round, so that both meet the same machine.
 * `dist` folders hold whole builds.
 */
export async function compareBuilds(
  dists: { readonly other: string; readonly this: string },
  parts: readonly Part[],
  progress: (text: string) => void,
): Promise<Record<string, Compared>> {
  const rounds: { other: RoundCosts; this: RoundCosts }[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const order = round % 2 === 0 ? (['other', 'this'] as const) : (['this', 'other'] as const)
    const measured = new Map<'other' | 'this', RoundCosts>()
    for (const which of order) {
      progress(`round ${round + 1} of ${ROUNDS}, ${which} build`)
      measured.set(which, await measure(dists[which], parts))
    }
    rounds.push({ other: measured.get('other') ?? {}, this: measured.get('this') ?? {} })
  }
  const names = Object.keys(rounds[0]?.this ?? {})
  return Object.fromEntries(names.map((name) => [name, compared(rounds, name)]))
}

async function measure(dist: string, parts: readonly Part[]): Promise<RoundCosts> {
  const program = fileURLToPath(new URL('./compare-round.js', import.meta.url))
  const env = { ...process.env, PANEL_TEST_DIST: dist }
  const child = spawn(process.execPath, [program, ...parts], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`a round ended with ${code}`)
  return JSON.parse(output) as RoundCosts // printed by compare-round.ts, which shares the type
}

function compared(rounds: readonly { other: RoundCosts; this: RoundCosts }[], name: string): Compared {
  const pair = (of: (cost: UnitCost) => number | null): Pair | null => {
    const both = rounds.flatMap((round) => {
      const [other, now] = [round.other[name], round.this[name]]
      const values = [other === undefined ? null : of(other), now === undefined ? null : of(now)]
      return values[0] == null || values[1] == null ? [] : [{ other: values[0], this: values[1] }]
    })
    if (both.length < rounds.length) return null
    const ratios = both.map((values) => values.this / values.other)
    return {
      other: rounded(median(both.map((values) => values.other))),
      this: rounded(median(both.map((values) => values.this))),
      ratio: rounded(median(ratios)),
      rounds: [rounded(Math.min(...ratios)), rounded(Math.max(...ratios))],
    }
  }
  const cpuMs = pair((cost) => cost.cpuMs)
  if (cpuMs === null) throw new Error(`${name} was not measured in every round`)
  const instructions = pair((cost) => cost.instructions)
  const verdict = verdictOf(instructions ?? cpuMs)
  const [perSecond, wakeups] = [pair((cost) => cost.perSecond), pair((cost) => cost.wakeups ?? null)]
  return { unit: rounds[0]?.this[name]?.unit ?? '', verdict, cpuMs, instructions, perSecond, wakeups }
}

function verdictOf({ ratio, rounds: [least] }: Pair): Verdict {
  if (ratio <= TOLERANCE) return 'not worse'
  return least > 1 ? 'worse' : 'uncertain'
}

function rounded(value: number): number {
  return Number(value.toPrecision(4))
}
