import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServerSpec } from '../../src/shared/protocol/server-spec.ts'
import { AgentStage, gameSpec } from './agent-stage.ts'

/** As games do: asks for the agreement, writes the file and ends with exit code 0. */
const ASKING = `
if ! grep -q '^eula=true' eula.txt 2>/dev/null; then
  printf '#By changing this you agree (https://example.test/eula).\\neula=false\\n' > eula.txt
  echo 'You need to agree to the EULA'
  exit 0
fi
echo ready
read -r line
`
const EULA = { eula: { file: 'eula.txt' } } as const

let stage: AgentStage
const used = new Set<string>()

beforeAll(async () => {
  stage = await AgentStage.enter()
  await stage.startAgent()
}, 60_000)

afterAll(async () => {
  await stage.leave([...used])
}, 60_000)

function spec(id: string, generation: number, change: Partial<ServerSpec> = {}): ServerSpec {
  used.add(id)
  return gameSpec(id, generation, { name: 'lobby', startup: ASKING, ...EULA, ...change })
}

const fileOf = (id: string): string => join(stage.dataDir, 'servers', id, 'eula.txt')
const answer = (serverId: string, accepted: boolean) => stage.peer.request({ op: 'server.eula', serverId, accepted })

describe('a game that asks for an agreement', () => {
  it('is not started over and over, says what to do, and starts when somebody has accepted', async () => {
    const id = 'srv_asking'
    const policy = { restart: { policy: 'always', maxCrashes: 5 } } as const
    await stage.peer.order(id, 1, { op: 'start', spec: spec(id, 1, policy) })
    const asked = await stage.peer.report(
      id,
      'asked',
      ({ eula, power }) => eula?.state === 'pending' && power === 'offline',
    )
    expect(asked).toMatchObject({ crash: { count: 0, crashed: false, nextRestartMs: null } })
    expect(asked.reason).toContain('panel servers eula accept lobby')
    expect(asked.eula?.text).toContain('https://example.test/eula')
    expect(asked.eula?.text).toContain('\n')
    const refused = await stage.peer.order(id, 2, { op: 'start', spec: spec(id, 2, policy) })
    expect(refused.error?.message).toContain('panel servers eula accept lobby')
    const again = await stage.peer.report(
      id,
      'asked again',
      ({ eula }) => (eula?.asked ?? 0) > (asked.eula?.asked ?? 0),
    )
    expect(again.power).toBe('offline')
    expect((await answer(id, true)).error).toBeNull()
    expect(await readFile(fileOf(id), 'utf8')).toBe(
      '#By changing this you agree (https://example.test/eula).\neula=true\n',
    )
    await stage.peer.report(id, 'answered', ({ eula, reason }) => eula === null && reason === null)
    expect((await answer(id, true)).error?.code).toBe('CONFLICT_STATE')
    expect((await stage.peer.order(id, 3, { op: 'start', spec: spec(id, 3, policy) })).ok).toBe(true)
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
  })

  it('stays down once declined, also for a new agent, and may be accepted later', async () => {
    const id = 'srv_declined'
    await stage.peer.order(id, 1, { op: 'start', spec: spec(id, 1) })
    await stage.peer.report(id, 'asked', ({ eula }) => eula?.state === 'pending')
    expect((await answer(id, false)).error).toBeNull()
    const declined = await stage.peer.report(id, 'declined', ({ eula }) => eula?.state === 'declined')
    expect(declined.reason).toContain('declined')
    expect((await answer(id, false)).error?.code).toBe('CONFLICT_STATE')
    await stage.stopAgent()
    await stage.startAgent()
    expect((await answer(id, true)).error).toBeNull()
    expect((await stage.peer.order(id, 2, { op: 'start', spec: spec(id, 2) })).ok).toBe(true)
  })

  it('is asked for right after its installation, and a link in the place of the file leads nowhere', async () => {
    const id = 'srv_installed'
    const script = 'cd "$MNT_SERVER" && echo eula=false > eula.txt'
    const install = { script, entrypoint: 'sh', timeoutMs: 60_000 }
    const done = await stage.peer.order(id, 1, {
      op: 'install',
      wipe: false,
      thenStart: true,
      spec: spec(id, 1, { install }),
    })
    expect(done).toMatchObject({ ok: false })
    const asked = await stage.peer.report(id, 'asked', ({ eula }) => eula?.state === 'pending')
    expect(asked).toMatchObject({ installed: true, power: 'offline' })
    const secret = join(stage.dataDir, 'outside')
    await writeFile(secret, 'eula=false\n')
    const { rm, symlink } = await import('node:fs/promises')
    await rm(fileOf(id))
    await symlink(secret, fileOf(id))
    expect((await answer(id, true)).error).not.toBeNull()
    expect(await readFile(secret, 'utf8')).toBe('eula=false\n')
  })
})
