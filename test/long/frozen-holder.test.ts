// @module-tag long
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { InnerAgent } from '../agent/inner-agent.ts'

let agent: InnerAgent

beforeAll(async () => {
  agent = await InnerAgent.enter()
}, 60_000)

afterAll(async () => {
  await agent.leave()
}, 60_000)

/** The process that holds the run of a server. */
async function holderOf(id: string): Promise<number> {
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const argv = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0') // it may just have ended
    if (argv.at(-2) === join(agent.dataDir, 'state', id)) return Number(pid)
  }
  throw new Error(`nothing holds ${id}`)
}

it('a stop that does not reach its holder leaves the server as it was, with the reason', {
  timeout: 120_000,
}, async () => {
  const id = 'srv_frozen'
  const startup = `trap 'sleep 1; echo all > saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done`
  await agent.begin(id, { startup, stop: { type: 'signal', value: 'SIGTERM', timeoutMs: 30_000 } })
  await agent.reaches(id, 'running')
  const holder = await holderOf(id)
  process.kill(holder, 'SIGSTOP')
  const stopped = agent.send(id, () => ({ op: 'stop' }))
  await agent.reaches(id, 'stopping')
  const report = await agent.peer.report(id, 'the reason', ({ reason }) => reason !== null, 90_000)
  process.kill(holder, 'SIGCONT')
  expect(report).toMatchObject({ power: 'running', reason: expect.stringMatching(/^It could not be stopped: /) })
  expect(await agent.peer.done(stopped)).toMatchObject({ ok: false, error: { code: 'TIMEOUT' } })
  expect(await agent.order(id, () => ({ op: 'stop' }))).toMatchObject({ ok: true })
  expect(existsSync(join(agent.dataDir, 'servers', id, 'saved'))).toBe(true)
  expect(await agent.reaches(id, 'offline')).toMatchObject({ reason: null, lastExit: { cause: 'stopped' } })
})
