import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Server } from '../../src/shared/api/servers.ts'
import type { SplitPanel } from './split-panel.ts'

export type Party = 'daemon' | 'agent'
export type Absent = readonly Party[]

/** Counts its starts in a file, and ends with the code that somebody writes into `end`. */
export const COUNTING_GAME = `
echo start >> starts
echo ready
while [ ! -e end ]; do sleep 0.05; done
code=$(cat end)
rm end
exit "$code"
`

/** How often the counting game was started. */
export async function startsOf(panel: SplitPanel, server: Server): Promise<number> {
  const text = await readFile(join(panel.filesOf(server.id), 'starts'), 'utf8').catch(() => '') // not started yet
  return text.split('\n').filter((line) => line === 'start').length
}

/** What was told of the end of an order. */
export async function doneEvents(panel: SplitPanel, server: Server, commandId: string) {
  return (await panel.events(server.id)).filter(
    ({ type, data }) => type === 'server_command_done' && data['commandId'] === commandId,
  )
}

/** Ends one of them by SIGKILL. */
export const kill = (panel: SplitPanel, party: Party): Promise<void> =>
  party === 'daemon' ? panel.killDaemon() : panel.killAgent()

/** Ends them by SIGKILL, one after the other. */
export async function killAll(panel: SplitPanel, parties: Absent): Promise<void> {
  for (const party of parties) await kill(panel, party)
}

/** Starts them again in this order, and waits for the node to be there. */
export async function startAll(panel: SplitPanel, parties: Absent): Promise<void> {
  for (const party of parties) await (party === 'daemon' ? panel.startDaemon() : panel.startAgent())
  await panel.online()
}
