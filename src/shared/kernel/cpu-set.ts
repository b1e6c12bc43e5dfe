/** How long a set of processors may be as text. */
export const MOST_CPU_SET = 200

/** The kernel knows no processor with a higher number. */
const HIGHEST_CPU = 8191
const RANGE = /^(\d{1,4})(?:-(\d{1,4}))?$/

/** The processors of a set as the kernel writes it (`0-3,6`), sorted; `undefined` for what is none. */
export function parseCpuSet(text: string): readonly number[] | undefined {
  if (text.length > MOST_CPU_SET) return undefined
  const cpus = new Set<number>()
  for (const part of text.split(',')) {
    const [, first, last = first] = RANGE.exec(part) ?? []
    if (first === undefined) return undefined
    const [from, to] = [Number(first), Number(last)]
    if (from > to || to > HIGHEST_CPU) return undefined
    for (let cpu = from; cpu <= to; cpu++) cpus.add(cpu)
  }
  return [...cpus].sort((a, b) => a - b)
}
