import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** How to start a holder from compiled sources, which Node 20 needs; the state folder is added by the runtime. */
export function holderCommand(workDir: string): [string, ...string[]] {
  const given = process.env['PANEL_TEST_DIST']
  if (given !== undefined && existsSync(join(given, 'bin', 'panel.js'))) {
    return [process.execPath, join(given, 'bin', 'panel.js'), '__holder']
  }
  const dist = given ?? build(join(workDir, 'dist'))
  const entry = join(workDir, 'holder.mjs')
  const main = JSON.stringify(join(dist, 'src', 'agent', 'holder', 'main.js'))
  writeFileSync(entry, `const { runHolder } = await import(${main})\nawait runHolder(process.argv[2])\n`)
  return [process.execPath, entry]
}

function build(out: string): string {
  const root = resolve(import.meta.dirname, '../..')
  mkdirSync(out, { recursive: true })
  const tsc = join(root, 'node_modules', '.bin', 'tsc')
  const only = join(out, 'tsconfig.json')
  const options = {
    rootDir: root,
    outDir: out,
    noEmit: false,
    noEmitOnError: false,
    types: ['node'],
    typeRoots: [join(root, 'node_modules', '@types')],
  }
  const files = [join(root, 'src/agent/holder/main.ts'), join(root, 'src/agent/runtime/process.ts')]
  writeFileSync(
    only,
    JSON.stringify({ extends: join(root, 'tsconfig.json'), compilerOptions: options, files, include: [] }),
  )
  execFileSync(tsc, ['-p', only], { stdio: 'inherit' })
  cpSync(join(root, 'package.json'), join(out, 'package.json'))
  if (!existsSync(join(out, 'node_modules'))) symlinkSync(join(root, 'node_modules'), join(out, 'node_modules'))
  return out
}
