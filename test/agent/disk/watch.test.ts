// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentStage, gameSpec } from '../agent-stage.ts'

const ID = 'srv_writer'
const LIMIT_MB = 40

/** Writes some when it is told a number, and without end when it is told anything else; it does not heed SIGTERM. */
const WRITER = `
trap '' TERM
echo ready
while read -r line; do
  case "$line" in
    forever) while :; do head -c 1000000 /dev/zero >> grown; sleep 0.04; done ;;
    *) head -c "$line" /dev/zero >> grown ;;
  esac
done
`

let stage: AgentStage

beforeAll(async () => {
  stage = await AgentStage.enter()
  await stage.startAgent()
}, 60_000)

afterAll(async () => {
  await stage.leave([ID])
}, 60_000)

const type = (line: string) => stage.peer.request({ op: 'console.input', serverId: ID, lines: [line] })
const said = (text: string): boolean => stage.peer.lines(ID).some(([, , , line]) => line.includes(text))

describe('a server whose disk limit is watched', () => {
  it('is warned at 90 %, stopped above 105 % within 10 s, and ended when it goes on writing', {
    timeout: 60_000,
  }, async () => {
    const { limits } = gameSpec(ID, 1)
    const stop = { type: 'signal', value: 'SIGTERM', timeoutMs: 600_000 } as const
    const spec = gameSpec(ID, 1, { startup: WRITER, stop, limits: { ...limits, diskMb: LIMIT_MB } })
    await stage.peer.order(ID, 1, { op: 'start', spec })
    await stage.peer.report(ID, 'running', ({ power }) => power === 'running')
    await stage.peer.request({ op: 'console.subscribe', serverId: ID, tail: 100 })
    await type(String(Math.round(LIMIT_MB * 0.95 * 1024 * 1024)))
    await stage.peer.until('the warning', () => said('% of its disk'), 30_000)
    const began = performance.now()
    await type('forever')
    const ended = await stage.peer.report(ID, 'its end', ({ power }) => power === 'offline')
    expect(performance.now() - began).toBeLessThan(10_000)
    expect(said('it is stopped')).toBe(true)
    expect(said('it is ended at once')).toBe(true)
    expect(ended.reason).toContain(`of its ${LIMIT_MB} MB of disk`)
    expect(ended.crash.crashed).toBe(false)
  })
})
