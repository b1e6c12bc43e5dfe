import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/**
 * Compiles the program once for all tests into a folder of its own, which PANEL_TEST_DIST names: children (daemon, agent,
 * holders, the command line) run compiled code, and a daemon that somebody runs from `dist` is not disturbed.
 */
export default function setup(): () => void {
  if (process.env['PANEL_TEST_DIST'] !== undefined) return () => undefined
  const root = resolve(import.meta.dirname, '..')
  // Enterable for everybody: tests run programs under other users.
  const dist = mkdtempSync(join(tmpdir(), 'panel-test-dist-'))
  execFileSync('chmod', ['755', dist])
  const config = join(dist, 'tsconfig.json')
  const compilerOptions = {
    noEmit: false,
    outDir: dist,
    rootDir: root,
    types: ['node'],
    typeRoots: [join(root, 'node_modules', '@types')],
  }
  const include = ['bin', 'src'].map((name) => join(root, name))
  writeFileSync(config, JSON.stringify({ extends: join(root, 'tsconfig.json'), compilerOptions, include }))
  execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', config], { stdio: 'inherit' })
  for (const name of ['package.json', 'templates']) cpSync(join(root, name), join(dist, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(dist, 'node_modules'))
  process.env['PANEL_TEST_DIST'] = dist
  return () => rmSync(dist, { recursive: true, force: true })
}
