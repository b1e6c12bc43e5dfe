import { existsSync, readFileSync } from 'node:fs'
import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentStage, gameSpec } from './agent-stage.ts'

let stage: AgentStage
const used = new Set<string>()
const isRoot = process.getuid?.() === 0

beforeAll(async () => {
  stage = await AgentStage.enter()
  await stage.startAgent()
}, 60_000)

afterAll(async () => {
  await stage.leave([...used])
}, 60_000)

function serverNamed(name: string): string {
  used.add(`srv_${name}`)
  return `srv_${name}`
}

const files = (id: string): string => join(stage.dataDir, 'servers', id)

function withScript(id: string, generation: number, script: string, timeoutMs = 30_000) {
  return gameSpec(id, generation, { install: { script, entrypoint: 'sh', timeoutMs }, env: { FLAVOUR: 'mint' } })
}

describe('an installation', () => {
  it('runs the script with the variables in the server folder, marks it installed and starts', async () => {
    const id = serverNamed('install')
    const script = 'cd "$MNT_SERVER"\r\necho "$FLAVOUR" > flavour.txt\r\npwd > where.txt\r\n'
    const spec = withScript(id, 1, script)
    const done = await stage.peer.order(id, 1, { op: 'install', spec, wipe: false, thenStart: true })
    expect(done).toMatchObject({ ok: true })
    expect(readFileSync(join(files(id), 'flavour.txt'), 'utf8')).toBe('mint\n')
    expect(readFileSync(join(files(id), 'where.txt'), 'utf8').trim()).toBe(isRoot ? '/mnt/server' : files(id))
    expect((await readdir(files(id))).filter((name) => name.startsWith('.panel-install'))).toEqual([])
    const running = await stage.peer.report(id, 'running', (report) => report.power === 'running')
    expect(running).toMatchObject({ installed: true, activity: null })
    expect(stage.peer.reports(id).some((report) => report.activity === 'installing')).toBe(true)
  })

  it('fails with the exit code and the last lines of the script', async () => {
    const id = serverNamed('failing')
    const spec = withScript(id, 1, 'echo first\necho "no such mirror" >&2\nexit 4\n')
    const done = await stage.peer.order(id, 1, { op: 'install', spec, wipe: false, thenStart: true })
    expect(done.error).toMatchObject({ code: 'INSTALL_FAILED' })
    expect(done.error?.message).toContain('exit code 4')
    expect(done.error?.message).toContain('no such mirror')
    const report = await stage.peer.report(id, 'failed', ({ activity }) => activity === null)
    expect(report).toMatchObject({ installed: false, power: 'offline' })
    expect(report.installError).toContain('no such mirror')
  })

  it('ends a script that takes too long', async () => {
    const id = serverNamed('slow')
    const spec = withScript(id, 1, 'sleep 600\n', 400)
    const done = await stage.peer.order(id, 1, { op: 'install', spec, wipe: false, thenStart: false })
    expect(done.error?.code).toBe('TIMEOUT')
  })

  it('wipes before a reinstallation and follows no link out of the folder', async () => {
    const id = serverNamed('wipe')
    const outside = join(stage.dataDir, 'outside')
    await mkdir(outside, { recursive: true })
    await writeFile(join(outside, 'precious.txt'), 'keep')
    await stage.peer.order(id, 1, {
      op: 'install',
      spec: withScript(id, 1, 'mkdir -p a/b; echo x > a/b/old.txt'),
      wipe: false,
      thenStart: false,
    })
    await symlink(outside, join(files(id), 'a', 'escape'))
    await symlink(outside, join(files(id), 'escape'))
    const done = await stage.peer.order(id, 2, {
      op: 'install',
      spec: withScript(id, 2, 'echo new > new.txt'),
      wipe: true,
      thenStart: false,
    })
    expect(done.ok).toBe(true)
    expect(await readdir(files(id))).toEqual(['new.txt'])
    expect(readFileSync(join(outside, 'precious.txt'), 'utf8')).toBe('keep')
  })

  it('is ended by a deletion, which removes everything but what links point to', async () => {
    const id = 'srv_deleted'
    const outside = join(stage.dataDir, 'outside-delete')
    await mkdir(outside, { recursive: true })
    await writeFile(join(outside, 'precious.txt'), 'keep')
    const installId = stage.peer.nextId()
    const command = {
      op: 'install' as const,
      spec: withScript(id, 1, 'echo begun; sleep 600'),
      wipe: false,
      thenStart: true,
    }
    stage.peer.send({ type: 'command', id: installId, serverId: id, generation: 1, command })
    await stage.peer.report(id, 'installing', ({ activity }) => activity === 'installing')
    await stage.peer.until('the folder', () => existsSync(files(id)))
    await symlink(outside, join(files(id), 'escape'))
    expect(await stage.peer.order(id, 2, { op: 'delete', keepFiles: false })).toMatchObject({ ok: true })
    expect((await stage.peer.done(installId)).error?.code).toBe('INTERRUPTED')
    expect(existsSync(files(id))).toBe(false)
    expect(existsSync(join(stage.dataDir, 'state', id))).toBe(false)
    expect(readFileSync(join(outside, 'precious.txt'), 'utf8')).toBe('keep')
    const stale = await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
    expect(stale.error?.code).toBe('STALE_GENERATION')
  })

  it('keeps the files when a deletion says so', async () => {
    const id = 'srv_kept'
    await stage.peer.order(id, 1, {
      op: 'install',
      spec: withScript(id, 1, 'echo x > world.dat'),
      wipe: false,
      thenStart: true,
    })
    expect(await stage.peer.order(id, 2, { op: 'delete', keepFiles: true })).toMatchObject({ ok: true })
    expect(readFileSync(join(files(id), 'world.dat'), 'utf8')).toBe('x\n')
  })
})
