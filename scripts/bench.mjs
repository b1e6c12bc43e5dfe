// `npm run bench`: compiles the program and the bench into a folder of its own, so that neither a daemon that runs from dist
// nor an unfinished build is in the way, and runs the bench there. The bench's arguments are passed on.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
// Enterable for everybody: servers run under other users.
const dist = mkdtempSync(join(tmpdir(), 'panel-bench-dist-'))
try {
  spawnSync('chmod', ['755', dist])
  process.exitCode = compile() || run()
} finally {
  rmSync(dist, { recursive: true, force: true })
}

function compile() {
  const { status } = spawnSync(process.execPath, [join(root, 'scripts', 'build.mjs'), dist, 'test/bench'], {
    stdio: 'inherit',
  })
  return status ?? 1
}

function run() {
  const main = join(dist, 'test', 'bench', 'main.js')
  const env = { ...process.env, PANEL_TEST_DIST: dist }
  const { status } = spawnSync(process.execPath, [main, ...process.argv.slice(2)], { stdio: 'inherit', env })
  return status ?? 1
}
