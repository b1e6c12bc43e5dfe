import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/**
 * Builds the program once for all tests into a folder of its own, which PANEL_TEST_DIST names: children (daemon, agent,
 * holders, the command line) run built code, and a daemon that somebody runs from `dist` is not disturbed.
 */
export default function setup(): () => void {
  if (process.env['PANEL_TEST_DIST'] !== undefined) return () => undefined
  // Enterable for everybody: tests run programs under other users.
  const dist = mkdtempSync(join(tmpdir(), 'panel-test-dist-'))
  execFileSync('chmod', ['755', dist])
  const builder = resolve(import.meta.dirname, '..', 'scripts', 'build.mjs')
  execFileSync(process.execPath, [builder, dist], { stdio: 'inherit' })
  process.env['PANEL_TEST_DIST'] = dist
  return () => rmSync(dist, { recursive: true, force: true })
}
