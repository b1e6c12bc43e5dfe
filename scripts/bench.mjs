// `npm run bench`: compiles the program and the bench into a folder of its own, so that neither a daemon that runs from dist
// nor an unfinished build is in the way, and runs the bench there. Other arguments are passed on to the bench.
//
//   npm run bench -- --save before.tgz        keeps this build for a later comparison
//   npm run bench -- --compare before.tgz     measures that build and this one in turn (a folder of a checkout or a commit of
//                                             this repository is built first); exit code 0 when nothing is worse
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const modules = join(root, 'node_modules')
const { save, compare, rest } = options(process.argv.slice(2))
// Enterable for everybody: servers run under other users.
const work = mkdtempSync(join(tmpdir(), 'panel-bench-dist-'))
const dist = join(work, 'this')
try {
  command('chmod', ['755', work])
  build(root, dist)
  if (save !== undefined) command('tar', ['-czf', resolve(save), '--exclude=./node_modules', '-C', dist, '.'])
  else process.exitCode = run(compare === undefined ? {} : { PANEL_BENCH_OTHER_DIST: otherBuild(compare) })
} catch (error) {
  process.stderr.write(`bench: ${error.message}\n`)
  process.exitCode = 1
} finally {
  rmSync(work, { recursive: true, force: true })
}

function options(args) {
  const rest = []
  const found = {}
  for (let i = 0; i < args.length; i++) {
    const [, name, value] = /^--(save|compare)(?:=(.*))?$/s.exec(args[i]) ?? []
    if (name === undefined) rest.push(args[i])
    else found[name] = value ?? args[++i]
    if (name !== undefined && !found[name]) {
      process.stderr.write(`bench: --${name} needs a file\n`)
      process.exit(2)
    }
  }
  return { ...found, rest }
}

function run(env) {
  const main = join(dist, 'test', 'bench', 'main.js')
  const options = { stdio: 'inherit', env: { ...process.env, PANEL_TEST_DIST: dist, ...env } }
  return spawnSync(process.execPath, [main, ...rest], options).status ?? 1
}

/** The build to compare with: a saved one, one of a checkout, or one of a commit. Packages are those of this checkout. */
function otherBuild(what) {
  const other = join(work, 'other')
  const stat = statSync(what, { throwIfNoEntry: false })
  if (stat?.isFile()) {
    mkdirSync(other)
    command('tar', ['-xzf', resolve(what), '-C', other])
    symlinkSync(modules, join(other, 'node_modules'))
    return other
  }
  if (stat?.isDirectory()) return build(resolve(what), other)
  const checkout = join(work, 'checkout')
  mkdirSync(checkout)
  command('git', ['-C', root, 'archive', '--output', join(work, 'commit.tar'), what])
  command('tar', ['-xf', join(work, 'commit.tar'), '-C', checkout])
  symlinkSync(modules, join(checkout, 'node_modules'))
  return build(checkout, other)
}

function build(checkout, target) {
  const agent = 'test/agent/agent-program.ts' // what the measurement of backups asks
  command(process.execPath, [join(checkout, 'scripts', 'build.mjs'), target, 'test/bench', agent])
  return target
}

function command(program, args) {
  const { status, error } = spawnSync(program, args, { stdio: ['ignore', 2, 2] })
  if (error !== undefined) throw error
  if (status !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${status}`)
}
