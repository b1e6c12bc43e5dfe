// @module-tag long
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { listServers } from '../../src/shared/api/servers.ts'
import { unsuspendServer } from '../../src/shared/api/suspension.ts'
import { openPane, type Pane } from '../cli/tui/pane.ts'
import { MigrationStage } from '../daemon/migration/migration-stage.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { until } from '../e2e/wait.ts'
import { type SourceSimulator, startSource } from '../migration-source/source-simulator.ts'
import { ROOT } from '../module-graph.ts'
import { startPanel } from '../panel.ts'
import { DIST, type Ran, type RunOptions, runPanel } from '../run-panel.ts'

const PATIENCE_MS = 300_000
const WORLD = { servers: 3, nodes: 1, filesPerServer: 2, fileKb: 4, suspended: 0, fullSlots: 0, zeroSlots: 0 }

const lastLine = (stdout: string) => JSON.parse(stdout.trim().split('\n').at(-1) ?? '')

describe('a migration by the built program', { timeout: PATIENCE_MS }, () => {
  let panel: SplitPanel
  let source: SourceSimulator
  let nodeId: string

  beforeAll(async () => {
    ;[panel, source] = await Promise.all([SplitPanel.enter(), startSource(WORLD)])
    const [node] = JSON.parse((await panel.run(['migration', 'nodes', '-o', 'json'])).stdout)
    nodeId = node.id
    await panel.run(['nodes', 'edit', nodeId, '--memory', '1000G', '--cpu', '1000'])
  })

  afterAll(async () => {
    // Those whose files have not come stay suspended, and are not deleted like the others.
    for (const { id, status } of await panel.client.call(listServers, { query: { limit: 100 } })) {
      if (status === 'suspended') await panel.client.call(unsuspendServer, { params: { serverId: id } })
    }
    await panel.leave()
    await source.close()
  })

  beforeEach(() => source.setFaults({ delayMs: 0, hostileTar: false, wingsOffline: [] }))

  const keys = () => ({
    PANEL_MIGRATION_KEY: source.keys.application,
    PANEL_MIGRATION_CLIENT_KEY: source.keys.account,
  })
  const request = () => [
    ...['--url', source.url, '--map', `1=${nodeId}`, '--runtime', 'process'],
    ...['--on-conflict', 'port=remap', '--on-conflict', 'capacity=warn'],
  ]
  const run = (args: readonly string[], options: RunOptions = {}): Promise<Ran> =>
    runPanel(['migration', ...args], { ...options, env: { ...panel.environment(), ...keys() } })

  it('goes on when whoever waits for it is interrupted, and is watched over a kill of the daemon', async () => {
    await source.setFaults({ delayMs: 200 })
    const left = await run(['start', ...request(), '--wait'], {
      onError: (stderr) => (/validating|running/.test(stderr) ? 'SIGINT' : undefined),
    })
    expect(left, left.stderr).toMatchObject({ code: 130, stdout: '' })
    expect(left.stderr).toMatch(
      /the migration goes on: panel migration watch mig_\w+\nto end it: panel migration cancel mig_/,
    )
    let isKilled = false
    const watching = run(['watch', 'latest', '-o', 'jsonl'], {
      onOutput: (stdout) => {
        isKilled ||= stdout.includes('"migration_step_updated"')
        return undefined
      },
    })
    await until('steps are under way', async () => isKilled, 60_000)
    await panel.killDaemon()
    await panel.startDaemon()
    await source.setFaults({ delayMs: 0 })
    const watched = await watching
    expect(watched, watched.stderr).toMatchObject({ code: 0 })
    const lines = watched.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines.filter(({ type }) => type === 'migration_job').length).toBeGreaterThan(1)
    expect(lines.at(-1)).toMatchObject({ type: 'migration_result', status: 'completed', exitCode: 0 })
    expect(watched.stderr).toContain('cut off from the panel')
  })

  it('fails at its first failure where that is wanted, and the step that has failed is tried again', async () => {
    source.passWeek()
    await source.setFaults({ wingsOffline: [1] })
    const failed = await run(['start', ...request(), '--max-failures', '0', '--wait', '-o', 'json'])
    expect(failed, failed.stderr).toMatchObject({ code: 11 })
    expect(JSON.parse(failed.stdout)).toMatchObject({ type: 'migration_result', status: 'failed', exitCode: 11 })
    await source.setFaults({ wingsOffline: [] })
    const { stdout } = await run(['steps', 'latest', '--failed', '-o', 'json'])
    const step = JSON.parse(stdout).find(({ retryable }: { retryable: boolean }) => retryable)
    const again = await run(['retry', 'latest', step.id, '--wait', '-o', 'json'])
    expect([0, 3], again.stderr).toContain(again.code)
    expect(JSON.parse(again.stdout).status).toBe('completed')
    const next = await run(['start', ...request(), '--wait', '-o', 'json'])
    expect(next, next.stderr).toMatchObject({ code: 0 })
  })

  describe('docs/examples/ci-migration.sh', () => {
    let folder: string

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'panel-ci-'))
      await mkdir(join(folder, 'bin'))
      const program = `#!/bin/sh\nexec "${process.execPath}" "${join(DIST, 'bin', 'panel.js')}" "$@"\n`
      await writeFile(join(folder, 'bin', 'panel'), program)
      await chmod(join(folder, 'bin', 'panel'), 0o755)
      const options = { runtimes: ['process'], conflicts: { port: 'remap', capacity: 'warn' } }
      await writeFile(join(folder, 'map.json'), JSON.stringify({ nodes: { 1: nodeId }, options }))
    })

    afterAll(() => rm(folder, { recursive: true, force: true }))

    /** Runs it as a CI job does: no terminal, variables alone. */
    async function ci(env: Readonly<Record<string, string>> = {}): Promise<{ code: number | null; stderr: string }> {
      const child = spawn('/bin/sh', [join(ROOT, 'docs', 'examples', 'ci-migration.sh')], {
        cwd: folder,
        env: {
          ...{ ...panel.environment(), ...keys(), CI: 'true', PATH: `${join(folder, 'bin')}:${process.env['PATH']}` },
          ...{ SOURCE_URL: source.url, MAP_FILE: 'map.json', TIME_LIMIT: '4m', ...env },
        },
        stdio: ['ignore', 'ignore', 'pipe'],
      })
      let stderr = ''
      child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
      const [code] = await once(child, 'close')
      return { code, stderr }
    }

    it('tests, plans, moves, compares and reports, and ends with 0', async () => {
      source.passWeek()
      const done = await ci()
      expect(done, done.stderr).toMatchObject({ code: 0 })
      expect(await readFile(join(folder, 'migration', 'report.md'), 'utf8')).toMatch(/^# Migration .*everything came/)
      expect(JSON.parse(await readFile(join(folder, 'migration', 'report.json'), 'utf8'))).toMatchObject({
        clean: true,
      })
      expect(lastLine(await readFile(join(folder, 'migration', 'events.jsonl'), 'utf8'))).toMatchObject({ exitCode: 0 })
    })

    it('tells wrong keys, single failures, a source that is away and another migration apart', async () => {
      expect((await ci({ PANEL_MIGRATION_KEY: 'x'.repeat(48) })).code).toBe(8)
      expect((await ci({ SOURCE_URL: 'http://127.0.0.1:9' })).code).toBe(75)
      expect((await ci({ PANEL_TOKEN: 'pak_wrong' })).code).toBe(4)
      source.passWeek()
      await source.setFaults({ hostileTar: true })
      const partly = await ci()
      expect(partly, partly.stderr).toMatchObject({ code: 3 })
      expect(partly.stderr).toMatch(/panel migration steps mig_\w+ --failed/)
      await source.setFaults({ hostileTar: false, delayMs: 300 })
      const other = await run(['start', ...request(), '--no-wait', '-o', 'json'])
      expect(other, other.stderr).toMatchObject({ code: 0 })
      expect((await ci()).code).toBe(75)
      expect((await run(['cancel', 'latest', '--yes', '--wait'])).code).toBe(0)
    })
  })
})

describe('the progress screen', { timeout: PATIENCE_MS }, () => {
  let stage: MigrationStage
  let pane: Pane
  let folder: string

  beforeAll(async () => {
    const customize: Parameters<typeof startSource>[0] = {
      ...WORLD,
      customize: ({ servers }) => {
        if (servers[0] !== undefined) servers[0].name = 'evil \u001b[2J\u001b]0;title\u0007'
      },
    }
    stage = await MigrationStage.open({ source: customize })
    folder = await mkdtemp(join(tmpdir(), 'panel-migration-'))
    const env = [
      ...[`HOME=${folder}`, `PANEL_CONFIG_DIR=${folder}`, `PANEL_URL=${stage.panel.url}`],
      `PANEL_TOKEN=${stage.panel.adminToken}`,
    ].join(' ')
    const program = `node ${join(DIST, 'bin', 'panel.js')}`
    const script = `#!/bin/bash\nstty -a > ${folder}/before\nenv ${env} ${program} migration "$@"\ncode=$?\nstty -a > ${folder}/after\necho "EXIT=$code"\n`
    await writeFile(join(folder, 'migration'), script)
    await chmod(join(folder, 'migration'), 0o755)
  })

  afterAll(async () => {
    await stage.close()
    await rm(folder, { recursive: true, force: true })
  })

  afterEach(() => pane.close())

  /** What `stty` says, without the size, which a test may change. */
  const settings = async (name: 'before' | 'after') =>
    (await readFile(join(folder, name), 'utf8')).replace(/rows \d+; columns \d+/, '')

  async function type(columns: number, rows: number, line: string): Promise<void> {
    pane = await openPane(columns, rows)
    await pane.text(`cd ${folder} && clear && ./migration ${line}`)
    await pane.keys('Enter')
  }

  it.each([
    { columns: 120, rows: 30 },
    { columns: 50, rows: 12 },
  ])('shows a plan as it is made at $columns x $rows, and leaves the terminal as it was', async ({ columns, rows }) => {
    await stage.source.setFaults({ delayMs: 300 })
    const jobId = await stage.start({ dryRun: true })
    await type(columns, rows, 'watch latest')
    const shown = await pane.shows('Planning a move from', 20_000)
    expect(shown).toContain('Ctrl-C ends the watching')
    await stage.source.setFaults({ delayMs: 0 })
    await stage.in(jobId)
    await pane.shows('EXIT=0', 20_000)
    expect(await settings('after')).toBe(await settings('before'))
  })

  it('shows steps with their bytes, and Ctrl-C ends the watching alone', async () => {
    await stage.source.setFaults({ delayMs: 100, slowBps: 400 })
    const jobId = await stage.start()
    await type(120, 30, 'watch latest')
    await pane.shows('Moving in from', 20_000)
    const shown = await pane.shows('transfer_files', 60_000)
    expect(shown).toMatch(/\d+ of \d+ steps +running, files/)
    expect(shown.match(/Moving in from/g)).toHaveLength(1)
    await pane.resize(60, 14)
    await pane.until((screen) => screen.includes('steps') && screen.split('\n').length <= 15, 'a smaller screen')
    await pane.resize(120, 30)
    await pane.keys('C-c')
    await pane.shows('EXIT=130', 20_000)
    expect(await pane.screen()).toContain('the migration goes on')
    expect(await settings('after')).toBe(await settings('before'))
    await stage.source.setFaults({ delayMs: 0, slowBps: 0 })
    expect(await stage.in(jobId, undefined, PATIENCE_MS)).toMatchObject({ status: 'completed' })
  })
})

it('a panel without a credential key keeps no keys of others', async () => {
  const panel = await startPanel({ env: { PANEL_CREDENTIAL_KEY: undefined }, agent: true })
  try {
    const env = {
      HOME: panel.home,
      PANEL_URL: panel.url,
      PANEL_TOKEN: panel.adminToken,
      PANEL_MIGRATION_KEY: 'x'.repeat(48),
    }
    const args = ['migration', 'start', '--url', 'http://127.0.0.1:9', '--map', `1=${panel.nodeId}`, '--no-wait']
    await until('the node is online', async () => (await runPanel(args, { env })).code !== 12)
    const ran = await runPanel(args, { env })
    expect(ran, ran.stderr).toMatchObject({ code: 14 })
    expect(ran.stderr).toContain('CREDENTIAL_ENCRYPTION_KEY_MISSING')
  } finally {
    await panel.close()
  }
})
