import { cpus, loadavg, release } from 'node:os'
import { parseArgs } from 'node:util'
import { auditExport } from './audit-export.ts'
import { fanOut, oneViewer } from './fan-out.ts'
import type { Measurement } from './figure.ts'
import { idleServers } from './idle-servers.ts'
import { lists } from './lists.ts'
import { orders } from './orders.ts'
import { reads } from './reads.ts'
import { sseConnects } from './sse-connects.ts'
import { startUp } from './start-up.ts'

const MEASUREMENTS: Readonly<Record<string, Measurement>> = {
  reads,
  orders,
  fanOut,
  oneViewer,
  sseConnects,
  startUp,
  idleServers,
  lists,
  auditExport,
}

/**
 * Prints one JSON object: each figure with its target and whether it was reached. What happens goes to stderr. A missed
 * target is a result; only a measurement that fails makes the exit code 1. `--only reads,orders` runs a part.
 */
const { values } = parseArgs({ options: { only: { type: 'string' } } })
const names = values.only?.split(',') ?? Object.keys(MEASUREMENTS)
const report: Record<string, unknown> = {
  machine: { cpus: cpus().length, model: cpus()[0]?.model ?? '', kernel: release(), node: process.version },
  startedAt: new Date().toISOString(),
}
for (const name of names) {
  const measure = MEASUREMENTS[name]
  if (measure === undefined) {
    process.stderr.write(`There is no measurement ${name}; there are ${Object.keys(MEASUREMENTS).join(', ')}\n`)
    process.exit(2)
  }
  const began = performance.now()
  const loadBefore = loadavg()[0]
  try {
    const figures = await measure((text) => process.stderr.write(`${name}: ${text}\n`))
    report[name] = { ...figures, seconds: Math.round((performance.now() - began) / 1000), loadBefore }
  } catch (error) {
    process.stderr.write(`${name}: ${error instanceof Error ? error.stack : String(error)}\n`)
    report[name] = { failed: String(error) }
    process.exitCode = 1
  }
}
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
