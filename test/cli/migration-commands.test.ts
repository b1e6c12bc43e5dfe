import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createNode } from '../../src/shared/api/nodes.ts'
import { MigrationStage } from '../daemon/migration/migration-stage.ts'
import { MIGRATION_COMMANDS } from './migration-paths.ts'
import { type RanHere, runHere } from './run-here.ts'

const EVIL = 'evil \u001b[2J\u202ename'
const done = new Set<string>()
let stage: MigrationStage
let plan: string
/** As the panel shows it. */
let nodeName: string

beforeAll(async () => {
  const none = { suspended: 0, fullSlots: 0, zeroSlots: 0 }
  stage = await MigrationStage.open({
    source: {
      ...{ servers: 3, nodes: 1, filesPerServer: 2, fileKb: 4, ...none },
      customize: ({ nodes, servers }) => {
        // Names of the source are whatever somebody has typed there.
        if (nodes[0] !== undefined) nodes[0].name = EVIL
        servers[0]?.subusers[0]?.permissions.push('some.right\nnothing is in the way')
      },
    },
  })
  plan = join(stage.panel.home, 'plan.json')
})

afterAll(() => stage.close())

beforeEach(() => stage.source.setFaults({ delayMs: 0, hostileTar: false }))

interface Given {
  readonly input?: string
  readonly keys?: boolean
}

async function run(exit: number, args: readonly string[], { input, keys = true }: Given = {}): Promise<RanHere> {
  const { url, adminToken, home } = stage.panel
  const { application, account } = stage.source.keys
  const env = {
    ...{ PANEL_URL: url, PANEL_TOKEN: adminToken, PANEL_CONFIG_DIR: home },
    ...(keys ? { PANEL_MIGRATION_KEY: application, PANEL_MIGRATION_CLIENT_KEY: account } : {}),
  }
  const ran = await runHere(['migration', ...args], { env, ...(input === undefined ? {} : { input }) })
  expect(ran.code, `panel migration ${args.join(' ')}: ${ran.stdout} ${ran.stderr}`).toBe(exit)
  for (const text of [ran.stdout, ran.stderr]) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none of these may reach a terminal
    expect(text).not.toMatch(/[\u001b\u202e]/)
    expect(text).not.toContain(application)
    expect(text).not.toContain(account)
  }
  if (exit === 0) done.add(`migration ${args[0]}`)
  return ran
}

const lines = ({ stdout }: RanHere) =>
  stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
const source = () => ['--url', stage.source.url]
const request = () => [...source(), '--map', `1=${stage.panel.nodeId}`, '--runtime', 'process']

describe('panel migration', () => {
  it('looks at a source with keys from stdin, files or the environment, and never from the command line', async () => {
    expect((await run(0, ['nodes'])).stdout).toMatch(/online/)
    const shown = await run(0, ['test', ...source(), '--source', 'pterodactyl'])
    expect(shown.stdout).toMatch(/SERVERS +3/)
    expect(shown.stdout).toMatch(/evil .*name/)
    const file = join(stage.panel.home, 'client.key')
    await writeFile(file, `${stage.source.keys.account}\n`)
    const both = ['--key-stdin', '--client-key-file', file]
    const input = `${stage.source.keys.application}\n`
    const found = JSON.parse(
      (await run(0, ['test', ...source(), ...both, '-o', 'json'], { keys: false, input })).stdout,
    )
    expect(found).toMatchObject({ success: true, kind: 'pterodactyl', stats: { servers: 3 }, missingRights: [] })
    nodeName = found.nodes[0].name
    expect((await run(2, ['test', ...source()], { keys: false })).stderr).toContain('PANEL_MIGRATION_KEY')
    expect((await run(2, ['test', ...source(), '--key-stdin', '--client-key-stdin'])).stderr).toContain('only one')
    await run(2, ['test', ...source(), '--key', 'ptla_anything'])
    await run(2, ['test'])
    await run(2, ['test', '--source', 'directory', '--path', '/srv/old'])
    expect((await run(8, ['test', ...source(), '--source', 'pelican'])).stderr).toContain('the source is pterodactyl')
    const wrong = await run(8, ['test', ...source(), '--key-stdin'], { input: `${'x'.repeat(48)}\n` })
    expect(wrong.stderr).toContain('REJECTED')
  })

  it('makes a plan, and says what is in the way with the flag that decides it', async () => {
    const blocked = await run(8, ['plan', ...source(), '--map', `1=${stage.panel.nodeId}`])
    expect(blocked.stdout).toMatch(/RUNTIME_MISSING.*--runtime process/)
    expect(blocked.stderr).toMatch(/conflicts: it does not start/)
    expect((await run(6, ['plan', ...source(), '--map', `nobody=${stage.panel.nodeId}`])).stderr).toContain(
      "no node 'nobody'",
    )
    await run(2, ['plan', ...request(), '--on-conflict', 'weather=fine'])
    await run(2, ['plan', ...request(), '--unlimited', 'memory=much'])
    expect((await run(8, ['plan', ...request(), '--port-range', '5-4'])).stderr).toContain('--port-range')
    // The name of a node, and a file in the place of flags.
    const file = join(stage.panel.home, 'map.json')
    await writeFile(
      file,
      JSON.stringify({ nodes: { [nodeName]: stage.panel.nodeId }, options: { runtimes: ['process'] } }),
    )
    const made = await run(0, ['plan', ...source(), '--map-file', file, '--out', plan, '-o', 'json'])
    expect(JSON.parse(made.stdout)).toMatchObject({ planVersion: 1, conflicts: [] })
    expect((await stat(plan)).mode & 0o777).toBe(0o600)
    const text = await readFile(plan, 'utf8')
    for (const key of Object.values(stage.source.keys)) expect(text).not.toContain(key)
    expect(JSON.parse(text)).toMatchObject({ request: { nodeMappings: { 1: stage.panel.nodeId } } })
    const { stderr } = await run(10, ['plan', ...request(), '--detailed-exitcode'])
    expect(stderr).toContain('no counterpart for some.right\\nnothing is in the way')
    await run(2, ['plan', ...request(), '--bwlimit', 'fast'])
    for (const [flag, value] of [
      ['--bwlimit', '1K'],
      ['--concurrency', '17'],
      ['--port-range', '70000-80000'],
      ['--backup-timeout', '900d'],
      ['--archive-origin', 'http://key:word@store.test'],
      ['--max-failures', '9999999'],
    ] as const) {
      const refused = (await run(8, ['plan', ...request(), flag, value])).stderr
      expect(refused).toContain(flag)
      expect(refused, flag).not.toMatch(/options\.|[a-z][A-Z]/)
    }
    for (const [typed, word] of [
      ['cpu=99999', 'cpu'],
      ['memory=99999G', 'memory'],
      ['disk=1M', 'disk'],
    ] as const) {
      const refused = (await run(8, ['plan', ...request(), '--unlimited', typed])).stderr
      expect(refused).toMatch(new RegExp(`^ {2}--unlimited ${word}: must`, 'm'))
      expect(refused, typed).not.toMatch(/options\.|[a-z][A-Z]/)
    }
    const slow = ['--bwlimit', '1.5M/s', '--database-host', '10.0.0.5:3306', '--on-conflict', 'database=copy']
    const slowPlan = join(stage.panel.home, 'slow.json')
    expect((await run(8, ['plan', ...request(), ...slow, '--out', slowPlan])).stdout).toContain('DATABASE_HOST_MISSING')
    expect(JSON.parse(await readFile(slowPlan, 'utf8')).request.options).toMatchObject({
      bytesPerSecond: 1_572_864,
      databaseHosts: ['10.0.0.5:3306'],
      conflicts: { database: 'copy' },
    })
    await writeFile(file, JSON.stringify({ node: {} }))
    await run(2, ['plan', ...source(), '--map-file', file])
  })

  it('carries out that plan, with an event in each line and the result in the last', async () => {
    await run(2, ['start', '--plan', plan, '--map', `1=${stage.panel.nodeId}`])
    await run(2, ['start', '--plan', join(stage.panel.home, 'cli.yaml')])
    const events = lines(await run(0, ['start', '--plan', plan, '--wait', '-o', 'jsonl']))
    expect(events[0]).toMatchObject({ type: 'migration_job' })
    expect(events.map(({ type }) => type)).toContain('migration_step_updated')
    const result = { type: 'migration_result', status: 'completed', outcome: 'clean', exitCode: 0, failed: [] }
    expect(events.at(-1)).toMatchObject({ ...result, report: { clean: true } })
    expect(await stage.servers()).toHaveLength(3)
    expect((await run(0, ['list'])).stdout).toMatch(/completed +move/)
    expect((await run(0, ['view', 'latest'])).stdout).toContain('completed')
    expect((await run(0, ['steps', 'latest', '--phase', 'servers'])).stdout).toContain('import_server')
    expect(lines(await run(0, ['watch', 'latest', '-o', 'jsonl'])).at(-1)).toMatchObject({ exitCode: 0 })
    const [{ id }] = JSON.parse((await run(0, ['list', '-o', 'json', '--limit', '1'])).stdout)
    expect((await run(0, ['view', id.slice(4, 28), '-o', 'id'])).stdout.trim()).toBe(id)
    await run(6, ['view', 'mig_00000000'])
    await run(7, ['pause', 'latest'])
    await run(7, ['retry', 'latest', '1'])
    expect((await run(7, ['retry', 'latest', '--all-failed'])).stderr).toContain('panel migration start')
    await run(2, ['retry', 'latest'])
    await run(6, ['retry', 'latest', '99999'])
  })

  it('reports in text, JSON and Markdown, of which none is taken over by a name', async () => {
    expect((await run(0, ['report', 'latest'])).stdout).toMatch(/server +3 +3 /)
    expect(JSON.parse((await run(0, ['report', 'latest', '--format', 'json'])).stdout)).toMatchObject({ clean: true })
    const file = join(stage.panel.home, 'report.md')
    await run(0, ['report', 'latest', '--format', 'markdown', '--out', file])
    const text = await readFile(file, 'utf8')
    expect(text).toMatch(/^# Migration .*everything came\n/)
    expect(text).toMatch(/^## What came$/m)
    expect(text).not.toMatch(/\]\(http/)
  })

  it('compares with the source again, and refuses a plan that is another one by now', async () => {
    const [{ id }] = JSON.parse((await run(0, ['list', '-o', 'json', '--limit', '1'])).stdout)
    await run(0, ['verify', 'latest', '--wait'])
    // Of the move, and not of the comparison.
    expect((await run(0, ['report', 'latest'])).stdout).toContain(id)
    stage.source.passWeek()
    const different = await run(3, ['verify', id, '--wait', '-o', 'jsonl'])
    expect(lines(different).at(-1)).toMatchObject({
      exitCode: 3,
      failed: expect.arrayContaining([expect.objectContaining({ action: 'compare_files' })]),
    })
    const drifted = await run(8, ['start', '--plan', plan, '--wait'])
    expect(drifted.stderr).toMatch(/^[~+-] |content has changed/m)
    expect(drifted.stderr).toContain('--allow-drift')
  })

  it('waits no longer than it may, pauses, goes on and cancels', { tags: ['long'] }, async () => {
    await stage.source.setFaults({ delayMs: 300 })
    const [{ jobId }] = lines(await run(0, ['start', ...request(), '--no-wait', '-o', 'jsonl']))
    expect((await run(7, ['start', ...request()])).stderr).toContain(jobId)
    const late = await run(124, ['watch', jobId, '--timeout', '200ms', '-o', 'jsonl'])
    expect(lines(late).at(-1)).toMatchObject({ type: 'migration_result', exitCode: 124 })
    expect(late.stderr).toContain('it goes on')
    expect((await run(0, ['pause', jobId, '--wait'])).stdout).toContain('paused')
    await run(7, ['start', ...request()])
    await run(0, ['resume', jobId, '--no-wait'])
    await run(2, ['cancel', jobId])
    expect((await run(0, ['cancel', jobId, '--yes', '--wait'])).stdout).toContain('cancelled')
    await run(11, ['watch', jobId])
    await run(8, ['resume', jobId, '--no-wait'])
  })

  it('refuses nodes that are offline', async () => {
    const { client, locationId } = stage.panel
    const body = { name: 'away', locationId, hostname: 'away.example', maxMemoryMb: 1000, maxCpuCores: 1 }
    await client.call(createNode, { body: body as never })
    expect((await run(12, ['start', ...source(), '--map', '1=away'])).stderr).toContain('away')
  })

  it('tries again only what another attempt may help', { tags: ['long'] }, async () => {
    stage.source.passWeek()
    await stage.source.setFaults({ hostileTar: true })
    const failing = await run(3, ['start', '--plan', plan, '--allow-drift', '--wait'])
    expect(failing.stderr).toMatch(/failed: transfer_files/)
    expect((await run(0, ['steps', 'latest', '--failed'])).stdout).toContain('transfer_files')
    await run(11, ['start', ...request(), '--max-failures', '0', '--wait'])
    const failed = JSON.parse((await run(0, ['steps', 'latest', '--failed', '-o', 'json'])).stdout)
    expect(failed).toMatchObject([{ action: 'transfer_files', retryable: false }])
    await run(7, ['retry', 'latest', String(failed[0].seq)])
    const again = await run(11, ['retry', 'latest', '--all-failed', '--wait', '-o', 'json'])
    expect(JSON.parse(again.stdout)).toMatchObject({ type: 'migration_result', exitCode: 11 })
  })

  it('leaves no command out', () => {
    // Those that want a migration which takes its time are run above, or by test/long/migration-commands.test.ts.
    const elsewhere = ['pause', 'resume', 'cancel', 'retry'].map((name) => `migration ${name}`)
    expect(MIGRATION_COMMANDS.filter((path) => !done.has(path) && !elsewhere.includes(path))).toEqual([])
  })
})
