import { join } from 'node:path'
import { expect } from 'vitest'
import type { Server } from '../../src/shared/api/servers.ts'
import { pause, until } from '../e2e/wait.ts'
import type { FaultNode, FaultPanel } from './fault-panel.ts'
import { writeRound } from './mixed-writes.ts'
import { faultsOf, openOrders } from './storage-check.ts'
import { WriteLedger } from './write-ledger.ts'

const WRITERS = 6

/** How much is written, and how often the daemon is killed meanwhile. */
export interface KillPlan {
  readonly writes: number
  readonly kills: number
}

/** Games that take orders all the time, and their node. */
export interface Players {
  readonly node: FaultNode
  readonly games: readonly Server[]
}

/**
 * Writes of all kinds through HTTP while the daemon is killed again and again, every third time once more while it starts.
 * After each start the database must be sound and hold every answered write as a whole.
 */
export async function writeUnderKills(
  panel: FaultPanel,
  { node, games }: Players,
  { writes, kills }: KillPlan,
): Promise<WriteLedger> {
  const ledger = new WriteLedger(panel)
  const over = new AbortController()
  const writer = async (number: number): Promise<void> => {
    for (let round = 1; !over.signal.aborted && ledger.answered.length < writes; round++) {
      await writeRound({ ledger, games, name: `writer-${number}-${round}` })
    }
  }
  const writers = Promise.all(Array.from({ length: WRITERS }, (_, number) => writer(number)))
  try {
    await Promise.race([writers, killAgainAndAgain(panel, ledger, { writes, kills, over: over.signal })])
    await writers
  } finally {
    over.abort()
  }
  // An agent that has met so many absences waits long before it tries again.
  await panel.killAgent(node)
  panel.startAgent(node)
  // Every accepted order comes to an end, and each end is told once.
  await until('the ends of all orders', async () => (await openOrders(fileOf(panel))).length === 0, 120_000)
  await expectSound(panel, ledger)
  return ledger
}

/** No promise broken, nothing half, nothing corrupt. */
export async function expectSound(panel: FaultPanel, ledger: WriteLedger): Promise<void> {
  const { answered, present, gone } = ledger
  const promised = { answered: [...answered], present: new Map(present), gone: new Map(gone) }
  expect(await faultsOf(fileOf(panel), promised)).toEqual([])
}

function fileOf(panel: FaultPanel): string {
  return join(panel.home, 'daemon', 'db', 'panel.db')
}

async function killAgainAndAgain(
  panel: FaultPanel,
  ledger: WriteLedger,
  { writes, kills, over }: KillPlan & { readonly over: AbortSignal },
): Promise<void> {
  for (let kill = 1; kill <= kills; kill++) {
    const goal = Math.round((writes * kill) / (kills + 1))
    await until('the next kill', async () => over.aborted || ledger.answered.length >= goal, 120_000)
    if (over.aborted) return
    // Somewhere within a write: they take a few milliseconds each.
    await pause(Math.random() * 20)
    await panel.killDaemon()
    if (kill % 3 === 0) {
      const starting = panel.startDaemon()
      await pause(200 + Math.random() * 800)
      await panel.killDaemon()
      await Promise.all([starting, panel.startDaemon()])
    } else await panel.startDaemon()
    await expectSound(panel, ledger)
  }
}
