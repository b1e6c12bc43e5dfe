import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FaultNode, FaultPanel } from './fault-panel.ts'

/** Counts its starts in a file, answers typed lines, and runs until it is ended. */
export const GAME = `
echo start >> starts
echo ready
while read -r line; do echo "got $line"; done
while :; do sleep 1; done
`

/** A template whose game is one shell script that says `ready`. */
export function templateOf(name: string, script: string) {
  return {
    name,
    runtimes: ['process' as const],
    startup: 'exec sh ./game.sh',
    stopCommand: '',
    sendSignalTo: 'SIGTERM' as const,
    stopTimeoutSeconds: 5,
    startupDetection: { done: [{ kind: 'contains' as const, value: 'ready' }] },
    installEntrypoint: 'sh',
    installScript: `cat > "\${MNT_SERVER:-.}/game.sh" <<'END'\n${script}\nEND\n`,
    allocatedMemoryMb: 64,
    allocatedCpuCores: 0.5,
  }
}

/** Puts another key into the credentials of a node's machine. */
export async function setKey(node: FaultNode, nodeKey: string): Promise<void> {
  const file = join(node.dir, 'node.json')
  const credentials: object = JSON.parse(await readFile(file, 'utf8'))
  await writeFile(file, JSON.stringify({ ...credentials, nodeKey }))
}

/** How long a piece of work takes, in milliseconds. */
export async function took(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN
}

/** Resolves with the moment (of performance.now) at which the event stream tells that the node is off- or online. */
export async function watchNode(
  panel: FaultPanel,
  node: FaultNode,
  isOnline: boolean,
): Promise<{ reported: Promise<number> }> {
  const response = await fetch(`${panel.url}/api/admin/events`, {
    headers: { authorization: `Bearer ${panel.token}` },
    signal: AbortSignal.timeout(90_000),
  })
  const { body } = response
  if (!response.ok || body === null) throw new Error(`the events answered ${response.status}`)
  const read = async (): Promise<number> => {
    const decoder = new TextDecoder()
    let text = ''
    for await (const chunk of body) {
      text += decoder.decode(chunk, { stream: true })
      const frames = text.split('\n\n')
      text = frames.pop() ?? ''
      const isIt = (frame: string): boolean =>
        frame.includes('event: node_updated') && frame.includes(node.id) && frame.includes(`"isOnline":${isOnline}`)
      if (frames.some(isIt)) return performance.now()
    }
    throw new Error('the event stream has ended')
  }
  const reported = read()
  reported.catch(() => {}) // whoever waits for it is told
  return { reported }
}
