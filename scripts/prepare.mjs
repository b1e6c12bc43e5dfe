// `npm install` builds, by the compiler of the development dependencies. Without them (an installed package) there is
// nothing to build. The build is incremental and never deletes: a daemon may be running from dist.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const compiler = findCompiler()
if (compiler !== undefined && existsSync(join(root, 'tsconfig.build.json'))) {
  const build = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' })
  process.exitCode = build.status ?? 1
}

function findCompiler() {
  try {
    const manifest = createRequire(join(root, 'package.json')).resolve('typescript/package.json')
    return join(dirname(manifest), 'bin', 'tsc')
  } catch {
    return undefined // installed without development dependencies: dist came with the package
  }
}
