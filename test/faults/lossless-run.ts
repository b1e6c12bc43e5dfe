import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { getLogs } from '../../src/shared/api/console.ts'
import type { Server } from '../../src/shared/api/servers.ts'
import { pause } from '../e2e/wait.ts'
import type { Cable } from './cable.ts'
import { CursorFollower } from './cursor-follower.ts'
import type { FaultNode, FaultPanel } from './fault-panel.ts'
import { LosslessViewer } from './lossless-viewer.ts'

/**
 * Prints as many numbered lines as the file `go` says, as fast as a shell can, and waits for the next `go`. Behind each line
 * that `go` lists it waits while there is a file `gate-<line>`. A file `play` is a script that is run in its place.
 */
export const PRINTER = `
echo ready
while :; do
  if [ -e go ]; then
    read -r count name gates < go
    rm -f go
    i=1
    while [ "$i" -le "$count" ]; do
      echo "$name $i"
      case " $gates " in *" $i "*) while [ -e "gate-$i" ]; do sleep 0.02; done ;; esac
      i=$((i+1))
    done
    echo "$name end"
  fi
  if [ -e play ]; then
    mv play playing
    . ./playing
  fi
  sleep 0.05
done
`

/** A server that prints, and who looks at it. */
export interface LosslessStage {
  readonly panel: FaultPanel
  readonly node: FaultNode
  readonly server: Server
  /** Lies between the agent and the daemon where cuts are part of the plan. */
  readonly cable?: Cable
}

/** How long a cut lasts: the connection lives through it. */
const CUT_MS = 3000

/** What happens while the lines come, in this order; each at the fraction of the lines that the viewer has by then. */
export type Fault = readonly [at: number, who: 'daemon' | 'agent' | 'viewer' | 'cable']

/** What is done to readers' lines, and where the follower is ended, as fractions of the lines. */
export interface Plan {
  readonly count: number
  readonly faults: readonly Fault[]
  readonly followerEnds: readonly number[]
  readonly slow: { readonly bytesPerSecond: number; readonly forMs: number }
}

export function streamUrl({ panel, server }: LosslessStage, lines = 0): string {
  return `${panel.url}/api/servers/${server.id}/console/stream?lines=${lines}`
}

/** Lets it print `count` lines under the faults, and checks that every reader has each of them once and in order. */
export async function printUnderFaults(stage: LosslessStage, plan: Plan): Promise<void> {
  const { count, faults, slow } = plan
  const { panel, node, server } = stage
  const viewer = new LosslessViewer(streamUrl(stage), panel.token)
  const slowViewer = new LosslessViewer(streamUrl(stage), panel.token, { slow })
  const follower = new CursorFollower(server.id, join(panel.home, 'cursor'), panel.environment())
  try {
    // Each has its place in the log before the first line.
    await panel.write(node, server, { name: 'play', text: 'sleep 1; echo begin; sleep 1; echo begin-2' })
    await follower.has('begin-2')
    for (const one of [viewer, slowViewer]) await one.line('the beginning', (text) => text === 'begin-2')

    const gates = faults.map(([at]) => Math.max(1, Math.floor(count * at)))
    for (const gate of gates) await panel.write(node, server, { name: `gate-${gate}`, text: '' })
    const ending = endFollower(follower, plan)
    ending.catch(() => {}) // told below
    await panel.write(node, server, { name: 'go', text: `${count} n ${gates.join(' ')}\n` })
    for (const [i, [, who]] of faults.entries()) {
      const gate = gates[i] ?? 0
      await viewer.line(`line ${gate}`, (text) => text === `n ${gate}`)
      // The lines go on in the moment of the fault.
      await fault(stage, viewer, { who, goOn: () => rm(panel.fileOf(node, server.id, `gate-${gate}`)) })
    }
    await viewer.line('the end', (text) => text === 'n end', 120_000)
    await ending
    await follower.has('n end', 120_000)
    await slowViewer.line('the end, slowly', (text) => text === 'n end', slow.forMs + 120_000)
    await follower.stop()
    await cutAtTheEnd(stage, viewer)
  } finally {
    await follower.stop()
    viewer.leave()
    slowViewer.leave()
  }

  expectEachOnce(viewer.lines, count)
  expectEachOnce(slowViewer.lines, count)
  expectEachOnce(follower.lines, count)
  for (const { wrongs, resumes } of [viewer, slowViewer]) {
    expect(wrongs).toEqual([])
    expect(resumes.filter(({ missed }) => missed > 0)).toEqual([])
  }
  const kills = faults.filter(([, who]) => who === 'daemon').length
  expect(viewer.connections).toBeGreaterThan(kills)
  expect(new Set(follower.exits)).toEqual(new Set([follower.exits[0]]))
}

/** At the newest line or a few behind it, a viewer that was cut off goes on with the next line. */
async function cutAtTheEnd({ panel, node, server }: LosslessStage, viewer: LosslessViewer): Promise<void> {
  for (const name of ['late', 'later', 'latest']) {
    viewer.cut()
    // The second time the lines are there before the viewer is back.
    if (name !== 'later') await viewer.back()
    await panel.write(node, server, { name: 'go', text: `20 ${name}\n` })
    await viewer.line(name, (text) => text === `${name} end`)
  }
  const tail = ['late', 'later', 'latest'].flatMap((name) => [...range(20).map((i) => `${name} ${i}`), `${name} end`])
  expect(viewer.lines.slice(-tail.length)).toEqual(tail)
}

const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i + 1)

async function fault(
  { panel, node, cable }: LosslessStage,
  viewer: LosslessViewer,
  { who, goOn }: { readonly who: Fault[1]; readonly goOn: () => Promise<void> },
): Promise<void> {
  if (who === 'viewer') {
    viewer.cut()
    return await goOn()
  }
  if (who === 'cable') {
    cable?.cut()
    await goOn()
    await pause(CUT_MS)
    return cable?.mend()
  }
  const killed = who === 'daemon' ? panel.killDaemon() : panel.killAgent(node)
  await Promise.all([killed, goOn()])
  if (who === 'daemon') await panel.startDaemon()
  else panel.startAgent(node, cable === undefined ? {} : { url: cable.url })
}

async function endFollower(follower: CursorFollower, { count, followerEnds }: Plan): Promise<void> {
  for (const at of followerEnds) await follower.restartAt(`n ${Math.floor(count * at)}`)
}

/** A viewer who was away while its lines were trimmed is told so once, with exact bounds, and goes on behind them. */
export async function trimWhileAway(stage: LosslessStage, count: number): Promise<void> {
  const { panel, node, server } = stage
  const before = new LosslessViewer(streamUrl(stage, 1), panel.token)
  await panel.write(node, server, { name: 'go', text: '10 before\n' })
  await before.line('the lines before', (text) => text === 'before end')
  before.leave()
  const { lastId, lastSeq = 0 } = before

  const watching = new LosslessViewer(streamUrl(stage), panel.token)
  await panel.write(node, server, { name: 'go', text: `${count} trim\n` })
  await watching.line('the last line', (text) => text === 'trim end')
  watching.leave()
  // Whoever watches gets each number as a line or in a frame that says that it is gone, and none in both.
  expect(watching.wrongs).toEqual([])

  const { firstSeq, lastSeq: last } = await panel.client.call(getLogs, {
    params: { serverId: server.id },
    query: { lines: 1 },
  })
  expect(firstSeq).toBeGreaterThan(lastSeq + 1)
  const back = new LosslessViewer(streamUrl(stage), panel.token, lastId === undefined ? {} : { resumeAt: lastId })
  await back.line('the last line, back again', (text) => text === 'trim end')
  back.leave()
  expect(back.wrongs).toEqual([])
  expect(back.resumes).toEqual([
    { from: lastSeq + 1, to: firstSeq - 1, missed: firstSeq - 1 - lastSeq, reason: 'trimmed' },
  ])
  expect(back.lines).toHaveLength(last - firstSeq + 1)
  const numbers = back.lines.slice(0, -1).map(numberOf)
  expect(numbers).toEqual(Array.from(numbers, (_, i) => count - numbers.length + 1 + i))

  // Whoever comes again with the id of that frame does not see it twice.
  const again = new LosslessViewer(streamUrl(stage), panel.token, {
    resumeAt: `${lastId?.split('-')[0]}-${firstSeq - 1}`,
  })
  await again.line('the last line once more', (text) => text === 'trim end')
  again.leave()
  expect(again.resumes).toEqual([{ from: firstSeq, to: firstSeq - 1, missed: 0, reason: null }])
  expect(again.lines).toHaveLength(back.lines.length)
}

/** Text that is no line, or no text, does no harm, and what comes after it is there. */
export async function printHostileText(stage: LosslessStage): Promise<void> {
  const { panel, node, server } = stage
  const viewer = new LosslessViewer(streamUrl(stage), panel.token)
  const follower = new CursorFollower(server.id, join(panel.home, 'hostile-cursor'), panel.environment())
  try {
    await panel.write(node, server, { name: 'play', text: 'sleep 2; echo start' })
    await viewer.line('the start', (text) => text === 'start')
    await panel.write(node, server, { name: 'play', text: HOSTILE })
    await viewer.line('the end', (text) => text === 'after 5')
    await follower.has('after 5')
  } finally {
    await follower.stop()
    viewer.leave()
  }

  expect(viewer.wrongs).toEqual([])
  const text = viewer.lines
  expect(text.slice(text.indexOf('start') + 1, text.indexOf('after 1'))).toEqual(['a prompt> ', 'typed'])
  const long = text.slice(text.indexOf('after 1') + 1, text.indexOf('after 2'))
  expect(long.length).toBeGreaterThanOrEqual(64)
  expect(long.join('')).toBe('x'.repeat(1024 * 1024))
  expect(text.slice(text.indexOf('after 2') + 1, text.indexOf('after 3'))).toEqual([
    'a\uFFFD\uFFFDb',
    '\uFFFD\uFFFD\uFFFD',
  ])
  expect(text.slice(text.indexOf('after 3') + 1, text.indexOf('after 4'))).toEqual(['nulhere'])
  const ansi = text.slice(text.indexOf('after 4') + 1, text.indexOf('after 5'))
  expect(ansi).toEqual(['\x1b[31mred\x1b[0m', '\x1b]0;title', 'id: 1-1', 'data: {}', 'event: error', 'grün ✓ 🎮'])
  for (const seen of ['after 1', 'after 2', 'after 3', 'after 4']) expect(follower.lines).toContain(seen)
}

const HOSTILE = `
printf 'a prompt> '
sleep 1
echo typed
echo after 1
head -c 1048576 /dev/zero | tr '\\0' x
echo
echo after 2
printf 'a\\377\\376b\\n\\300\\200\\355\\n'
echo after 3
printf 'nul\\000\\000here\\n'
echo after 4
printf '\\033[31mred\\033[0m\\n\\033]0;title\\007\\n'
printf 'id: 1-1\\ndata: {}\\nevent: error\\ngrün ✓ 🎮\\n'
echo after 5
`

function numberOf(text: string): number {
  return Number(/^\w+ (\d+)$/.exec(text)?.[1] ?? 0)
}

/** Tells the first place that is wrong, instead of two arrays of a hundred thousand. */
function expectEachOnce(lines: readonly string[], count: number): void {
  const numbers = lines.filter((line) => /^n \d+$/.test(line)).map(numberOf)
  const wrong = numbers.findIndex((number, i) => number !== i + 1)
  expect({
    count: numbers.length,
    wrongAt: wrong,
    around: wrong < 0 ? [] : numbers.slice(wrong - 2, wrong + 3),
  }).toEqual({
    count,
    wrongAt: -1,
    around: [],
  })
}
