import { cpus, loadavg, release } from 'node:os'
import { parseArgs } from 'node:util'
import { DIST } from '../run-panel.ts'
import { asShipped } from './as-shipped.ts'
import { auditExport } from './audit-export.ts'
import { backups } from './backups.ts'
import { compareBuilds } from './compare.ts'
import { PARTS, type Part } from './compare-parts.ts'
import { fanOut, flood, oneViewer } from './fan-out.ts'
import { feedEnd } from './feed-end.ts'
import type { Measurement } from './figure.ts'
import { files } from './files.ts'
import { idleServers } from './idle-servers.ts'
import { joining } from './joining.ts'
import { lists } from './lists.ts'
import { orders } from './orders.ts'
import { quotaOfOne, quotaOfTwo } from './quota.ts'
import { reads } from './reads.ts'
import { sseConnects } from './sse-connects.ts'
import { startUp } from './start-up.ts'
import { writes } from './writes.ts'

const MEASUREMENTS: Readonly<Record<string, Measurement>> = {
  quotaOfOne,
  quotaOfTwo,
  asShipped,
  reads,
  orders,
  writes,
  fanOut,
  oneViewer,
  flood,
  feedEnd,
  sseConnects,
  startUp,
  idleServers,
  joining,
  lists,
  files,
  auditExport,
  backups,
}

/**
 * Prints one JSON object: each figure with its target and whether it was reached. What happens goes to stderr. A missed
 * target is a result; only a measurement that fails makes the exit code 1. `--only reads,orders` runs a part.
 * With PANEL_BENCH_OTHER_DIST two builds are compared instead (see compare-parts.ts), and the exit code is
 * 0 only when this one is not worse in anything.
 */
const { values } = parseArgs({ options: { only: { type: 'string' } } })
const other = process.env['PANEL_BENCH_OTHER_DIST']
const report: Record<string, unknown> = {
  machine: { cpus: cpus().length, model: cpus()[0]?.model ?? '', kernel: release(), node: process.version },
  startedAt: new Date().toISOString(),
}
if (other === undefined) await measureAll(chosen(Object.keys(MEASUREMENTS)))
else await compareWith(other)
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`)

function chosen<Name extends string>(names: readonly Name[]): Name[] {
  const asked = values.only?.split(',') ?? names
  return asked.map((word) => {
    const name = names.find((each) => each === word)
    if (name === undefined) {
      process.stderr.write(`There is no measurement ${word}; there are ${names.join(', ')}\n`)
      process.exit(2)
    }
    return name
  })
}

async function measureAll(names: readonly string[]): Promise<void> {
  for (const name of names) {
    const began = performance.now()
    const loadBefore = loadavg()[0]
    try {
      const figures = await MEASUREMENTS[name]?.((text) => process.stderr.write(`${name}: ${text}\n`))
      report[name] = { ...figures, seconds: Math.round((performance.now() - began) / 1000), loadBefore }
    } catch (error) {
      process.stderr.write(`${name}: ${error instanceof Error ? error.stack : String(error)}\n`)
      report[name] = { failed: String(error) }
      process.exitCode = 1
    }
  }
}

async function compareWith(otherDist: string): Promise<void> {
  const parts: Part[] = chosen(PARTS)
  const costs = await compareBuilds({ other: otherDist, this: DIST }, parts, (text) =>
    process.stderr.write(`compare: ${text}\n`),
  )
  report['compared'] = costs
  for (const [name, { verdict, cpuMs }] of Object.entries(costs)) {
    process.stderr.write(`compare: ${name}: ${verdict} (CPU ${cpuMs.ratio.toFixed(2)} of the other build's)\n`)
    if (verdict !== 'not worse') process.exitCode = 1
  }
}
