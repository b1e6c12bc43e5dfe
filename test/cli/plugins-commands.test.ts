import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { EXAMPLE, installExample, isAlive, until } from '../daemon/plugins/plugin-stage.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { DIST, runPanel } from '../run-panel.ts'
import { walkPanel } from './command-walk.ts'
import { PLUGIN_COMMANDS } from './plugins-paths.ts'

let panel: TestPanel
beforeAll(async () => {
  panel = await startPanel()
  await installExample(panel.dataDir)
})
afterAll(() => panel.close())

const walk = walkPanel(PLUGIN_COMMANDS, () => panel)
const { ok, json } = walk
const refused = async (code: number, args: readonly string[]): Promise<string> =>
  (await walk.refused(code, args)).stderr

describe('the commands of plugins', { timeout: 60_000 }, () => {
  it('list, view, enable, reload', async () => {
    expect(await json(['plugins', 'list'])).toMatchObject([{ name: 'greeter', status: 'disabled' }])
    expect(await ok(['plugins', 'view', 'greeter'])).toContain('GET /api/plugins/greeter/greetings/:who (session)')
    await refused(6, ['plugins', 'view', 'nobody'])
    expect(await refused(2, ['plugins', 'enable', 'greeter'])).toContain('server.read')
    expect(await json(['plugins', 'enable', 'greeter', '--yes'])).toMatchObject({ status: 'enabled' })
    expect(await json(['plugins', 'reload', 'greeter'])).toMatchObject({ status: 'enabled' })
    const greeting = await json(['api', '/api/plugins/greeter/greetings/ann', '--unwrap'])
    expect(greeting).toMatchObject({ text: 'Hello, ann' })
  })

  it('config', async () => {
    const config = ['plugins', 'config', 'greeter']
    const set = ['--set', 'greeting=Good day', '--set', 'loud=true']
    expect(await json([...config, ...set])).toEqual({ greeting: 'Good day', loud: true })
    const secret = await json([...config, '--secret', 'signature', '--secret-stdin'], { input: 'Ann\n' })
    expect(secret).toEqual({ greeting: 'Good day', loud: true, signature: '********' })
    const shown = await json(['api', '/api/plugins/greeter/greetings/ann', '--unwrap'])
    expect(shown).toMatchObject({ text: 'GOOD DAY, ANN', signed: true })
    expect(await refused(8, [...config, '--set', 'loud=very'])).toContain('config.loud')
    expect(await json([...config, '--unset', 'signature', '--unset', 'loud'])).toEqual({ greeting: 'Good day' })
    const file = join(panel.home, 'config.yaml')
    await writeFile(file, 'greeting: Moin\n')
    expect(await json([...config, '-F', file])).toEqual({ greeting: 'Moin' })
    expect(await json(config)).toEqual({ greeting: 'Moin' })
  })

  it('disable, and what is broken', async () => {
    const file = join(panel.dataDir, 'plugins', 'greeter', 'index.js')
    await writeFile(file, 'throw new Error("broken on purpose")')
    expect(await refused(7, ['plugins', 'reload', 'greeter'])).toContain('broken on purpose')
    expect(await json(['plugins', 'view', 'greeter'])).toMatchObject({ status: 'error', error: 'broken on purpose' })
    expect(await json(['plugins', 'disable', 'greeter'])).toMatchObject({ status: 'disabled', granted: [] })
    await refused(7, ['plugins', 'enable', 'greeter', '--yes'])
    await writeFile(file, await readFile(join(EXAMPLE, 'index.js')))
    await ok(['plugins', 'enable', 'greeter', '--yes'])
    await rm(join(panel.dataDir, 'plugins', 'greeter'), { recursive: true })
    await ok(['plugins', 'disable', 'greeter'])
    await refused(6, ['plugins', 'disable', 'greeter'])
  })

  it('leave none out', () => {
    expect(walk.left()).toEqual([])
  })
})

describe('a daemon that is killed', () => {
  it('takes its plugins with it', { tags: ['long'] }, async () => {
    const home = join(panel.home, 'killed')
    const first = await startPanel({ dataDir: home })
    await installExample(first.dataDir)
    await runPanel(['plugins', 'enable', 'greeter', '--yes'], {
      env: { HOME: home, PANEL_URL: first.url, PANEL_TOKEN: first.adminToken },
    })
    await first.close()
    const args = [
      join(DIST, 'bin', 'panel.js'),
      'daemon',
      'run',
      '--data-dir',
      first.dataDir,
      '--listen',
      '127.0.0.1:0',
    ]
    const env = { PATH: process.env['PATH'] ?? '', HOME: home, PANEL_CREDENTIAL_KEY: 'ab'.repeat(32) }
    const daemon = spawn(process.execPath, args, { env, stdio: 'ignore' })
    try {
      const folder = join(first.dataDir, 'plugins', 'greeter')
      let pid = 0
      await until('the plugin runs', async () => {
        pid = await processIn(folder)
        return pid > 0
      })
      const ended = once(daemon, 'exit')
      daemon.kill('SIGKILL')
      await ended
      await until('the plugin is gone', () => !isAlive(pid))
    } finally {
      daemon.kill('SIGKILL')
    }
  })
})

/** The process that works in the folder, 0 when there is none. */
async function processIn(folder: string): Promise<number> {
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => '') // ended in between, or another user's
    if (cwd === folder) return Number(pid)
  }
  return 0
}
