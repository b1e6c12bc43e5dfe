import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'

const ENDING_MS = 5000

/**
 * Builds the program once for all tests into a folder of its own, which PANEL_TEST_DIST names: children (daemon, agent,
 * holders, the command line) run built code, and a daemon that somebody runs from `dist` is not disturbed. What still runs
 * of it after the tests fails the run.
 */
export default async function setup(): Promise<() => Promise<void>> {
  if (process.env['PANEL_TEST_DIST'] !== undefined) return async () => undefined
  // Enterable for everybody: tests run programs under other users.
  const dist = mkdtempSync(join(tmpdir(), 'panel-test-dist-'))
  execFileSync('chmod', ['755', dist])
  const builder = resolve(import.meta.dirname, '..', 'scripts', 'build.mjs')
  const programs = [
    'test/agent/agent-program.ts',
    'test/agent/rcon-game.ts',
    'test/daemon/jobs/tally-program.ts',
    'test/migration-source/source-program.ts',
  ]
  execFileSync(process.execPath, [builder, dist, ...programs], { stdio: 'inherit' })
  const schema: typeof import('../src/daemon/db/migrations.ts') = await import(
    pathToFileURL(join(dist, 'src/daemon/db/migrations.js')).href
  )
  await schema.migrate(join(dist, 'new.db'))
  process.env['PANEL_TEST_DIST'] = dist
  return async () => {
    const left = await leftOf(dist)
    rmSync(dist, { recursive: true, force: true })
    if (left.length === 0) return
    process.stderr.write(`FAILED: the tests left processes:\n${left.join('\n')}\n`)
    process.exitCode = 1 // an error thrown here would only be printed
  }
}

/** The processes that run the build, a line each; those that are about to end get their time. */
async function leftOf(dist: string): Promise<string[]> {
  for (const deadline = performance.now() + ENDING_MS; ; await sleep(50)) {
    const running = readdirSync('/proc').flatMap((pid) => {
      const words = /^\d+$/.test(pid) ? commandOf(pid) : []
      return words.some((word) => word.startsWith(dist)) ? [`${pid} ${words.join(' ')}`] : []
    })
    if (running.length === 0 || performance.now() > deadline) return running
  }
}

function commandOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
  } catch {
    return [] // it has ended in between
  }
}
