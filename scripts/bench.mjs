// `npm run bench`: compiles the program and the bench into a folder of its own, so that neither a daemon that runs from dist
// nor an unfinished build is in the way, and runs the bench there. The bench's arguments are passed on.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
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
  const config = join(dist, 'tsconfig.json')
  const compilerOptions = {
    noEmit: false,
    outDir: dist,
    rootDir: root,
    types: ['node'],
    typeRoots: [join(root, 'node_modules', '@types')],
  }
  const include = ['bin', 'src', 'test/bench'].map((name) => join(root, name))
  writeFileSync(config, JSON.stringify({ extends: join(root, 'tsconfig.json'), compilerOptions, include }))
  for (const name of ['package.json', 'templates']) cpSync(join(root, name), join(dist, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(dist, 'node_modules'))
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  // The compiler's words go to stderr: stdout is the bench's one JSON object.
  const { status } = spawnSync(process.execPath, [tsc, '-p', config], { stdio: ['ignore', 2, 2] })
  return status ?? 1
}

function run() {
  const main = join(dist, 'test', 'bench', 'main.js')
  const env = { ...process.env, PANEL_TEST_DIST: dist }
  const { status } = spawnSync(process.execPath, [main, ...process.argv.slice(2)], { stdio: 'inherit', env })
  return status ?? 1
}
