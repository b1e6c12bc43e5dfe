/** One measured number; `value` is `null` where it could not be measured. `ok` is `null` where there is nothing to reach. */
export interface Figure {
  readonly value: number | null
  readonly unit: string
  readonly target: string | null
  readonly ok: boolean | null
}

/** What a measurement answers: its figures by name. */
export type Figures = Record<string, Figure>

/** A measurement: it starts what it needs and leaves nothing behind. */
export type Measurement = (progress: (text: string) => void) => Promise<Figures>

/** A number without a target. */
export function shown(value: number, unit: string): Figure {
  return { value: rounded(value), unit, target: null, ok: null }
}

/** A number that must reach `least`. */
export function atLeast(value: number, least: number, unit: string): Figure {
  return { value: rounded(value), unit, target: `>= ${least}`, ok: value >= least }
}

/** A number that must stay under `limit`. */
export function under(value: number, limit: number, unit: string): Figure {
  return { value: rounded(value), unit, target: `< ${limit}`, ok: value < limit }
}

/** A number that `limit` may be, but not exceed. */
export function atMost(value: number, limit: number, unit: string): Figure {
  return { value: rounded(value), unit, target: `<= ${limit}`, ok: value <= limit }
}

/** A number that is not there, and why. */
export function notMeasured(why: string): Figure {
  return { value: null, unit: `not measured: ${why}`, target: null, ok: null }
}

/**
 * A rate that must reach `least` where the floor reaches `floorsLeast`; on a slower machine it must reach the same share of
 * what the floor does.
 */
export function atLeastBeside(
  value: number,
  floor: number,
  { least, floorsLeast }: { readonly least: number; readonly floorsLeast: number },
  unit: string,
): Figure {
  const scaled = Math.min(least, (least / floorsLeast) * floor)
  const target = `>= ${rounded(scaled)} (${least} where the bare route reaches ${floorsLeast}/s; here it reaches ${rounded(floor)})`
  return { value: rounded(value), unit, target, ok: value >= scaled }
}

/** A number that must be exactly this one. */
export function exactly(value: number, wanted: number, unit: string): Figure {
  return { value, unit, target: `= ${wanted}`, ok: value === wanted }
}

/** The middle value; NaN of none. */
export function median(values: readonly number[]): number {
  return percentile(values, 50)
}

/** The value that `percent` of all values do not exceed; NaN of none. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? Number.NaN
}

/** How far the rounds of one run lie apart: (largest - smallest) / median, in percent. */
export function spread(values: readonly number[]): Figure {
  return shown(((Math.max(...values) - Math.min(...values)) / median(values)) * 100, '% between rounds')
}

function rounded(value: number): number {
  return Number(value.toPrecision(4))
}
