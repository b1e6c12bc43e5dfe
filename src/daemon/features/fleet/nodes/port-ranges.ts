import { z } from 'zod'
import { PortRange } from '../../../../shared/kernel/ports.ts'
import { parseJson } from '../../../db/json.ts'

/** From where ports are taken on a node that has no ranges: above those of well-known services, below those of outgoing connections. */
const USUAL: PortRange = { from: 25_565, to: 29_999 }

const Ranges = z.array(PortRange)

/** The ranges of a node's row, as its operator wrote them. */
export function portRangesOf({ portRanges }: { readonly portRanges: string }): PortRange[] {
  return parseJson(Ranges, portRanges)
}

/**
 * The ports that a server of the node may be given, each once, in the order of preference: `preferred` ones first, where they
 * lie in the node's ranges or it has none, then the ranges.
 */
export function* givenPorts(ranges: readonly PortRange[], preferred: readonly number[] = []): Generator<number> {
  const seen = new Set<number>()
  const isAllowed = (port: number): boolean =>
    ranges.length === 0 || ranges.some(({ from, to }) => port >= from && port <= to)
  for (const port of preferred.filter(isAllowed)) {
    if (!seen.has(port)) yield port
    seen.add(port)
  }
  for (const { from, to } of ranges.length === 0 ? [USUAL] : ranges) {
    for (let port = from; port <= to; port++) {
      if (!seen.has(port)) yield port
      seen.add(port)
    }
  }
}

/** The ranges as people write them: `25565-25700, 27015`. */
export function rangesText(ranges: readonly PortRange[]): string {
  return (ranges.length === 0 ? [USUAL] : ranges)
    .map(({ from, to }) => (from === to ? String(from) : `${from}-${to}`))
    .join(', ')
}
