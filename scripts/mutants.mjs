// `npm run mutants`: compiles the list of planted mistakes into a folder of its own and runs it there (test/mutants/main.ts).
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const dist = mkdtempSync(join(tmpdir(), 'panel-mutants-dist-'))
try {
  const build = [join(root, 'scripts', 'build.mjs'), dist, 'test/mutants']
  const main = [join(dist, 'test', 'mutants', 'main.js'), ...process.argv.slice(2)]
  process.exitCode = node(build) || node(main)
} finally {
  rmSync(dist, { recursive: true, force: true })
}

function node(args) {
  return spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' }).status ?? 1
}
