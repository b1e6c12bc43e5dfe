import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { runPanel } from '../run-panel.ts'
import { BenchPanel } from './bench-panel.ts'
import { type Figures, type Measurement, percentile, shown, under } from './figure.ts'
import { residentMiB } from './processes.ts'
import { seedAudit } from './seed-audit.ts'

const ROWS = 1_000_000
const GROWTH_MIB = 40
const OTHERS_MS = 50
const PROBE_EVERY_MS = 20

/** What an export by the command line did to the daemon. */
export interface ExportLoad {
  readonly seconds: number
  readonly bytes: number
  readonly growthMiB: number
  readonly others: { readonly p50: number; readonly p99: number; readonly max: number; readonly count: number }
}

/** Exporting a million rows: the daemon's memory, and how others are answered meanwhile. */
export const auditExport: Measurement = async (progress) => {
  const panel = await BenchPanel.enter()
  try {
    progress(`seeding ${ROWS} rows`)
    await seedAudit(panel.database, ROWS)
    const figures: Figures = {}
    for (const format of ['csv', 'jsonl']) {
      progress(`exporting as ${format}`)
      const load = await exportAll(panel, format)
      figures[`${format}.growth`] = under(load.growthMiB, GROWTH_MIB, 'MiB of resident memory')
      figures[`${format}.othersP99`] = under(load.others.p99, OTHERS_MS, 'ms')
      figures[`${format}.othersMax`] = shown(load.others.max, 'ms')
      figures[`${format}.seconds`] = shown(load.seconds, 's')
      figures[`${format}.size`] = shown(load.bytes / 1_048_576, 'MiB')
    }
    const began = performance.now()
    const { code, stderr } = await runPanel(['audit', 'verify'], { env: panel.env })
    if (code !== 0) throw new Error(stderr)
    return { ...figures, verify: shown((performance.now() - began) / 1000, 's') }
  } finally {
    await panel.leave()
  }
}

/** Runs `panel audit export` to a file, which is removed again, while another client asks the daemon all the time. */
export async function exportAll(panel: BenchPanel, format: string): Promise<ExportLoad> {
  for (let i = 0; i < 200; i++) await probe(panel)
  const before = await residentMiB(panel.daemonPid)
  const out = join(panel.home, `export.${format}`)
  const began = performance.now()
  let over = false
  const exporting = runPanel(['audit', 'export', '--format', format, '--out', out], { env: panel.env }).finally(() => {
    over = true
  })
  const times: number[] = []
  let most = before
  while (!over) {
    times.push(await probe(panel))
    most = Math.max(most, await residentMiB(panel.daemonPid))
    await new Promise((resolve) => setTimeout(resolve, PROBE_EVERY_MS))
  }
  const { code, stderr } = await exporting
  if (code !== 0) throw new Error(`the export ended with ${code}: ${stderr}`)
  const seconds = (performance.now() - began) / 1000
  const { size: bytes } = await stat(out)
  await rm(out)
  const others = {
    p50: percentile(times, 50),
    p99: percentile(times, 99),
    max: Math.max(...times),
    count: times.length,
  }
  return { seconds, bytes, growthMiB: most - before, others }
}

/** Milliseconds of one ordinary request. */
async function probe(panel: BenchPanel): Promise<number> {
  const began = performance.now()
  const response = await fetch(`${panel.url}/api/locations`, { headers: { authorization: `Bearer ${panel.token}` } })
  await response.text()
  if (!response.ok) throw new Error(`the probe was answered ${response.status}`)
  return performance.now() - began
}
