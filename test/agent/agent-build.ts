import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** The programs of an agent compiled for plain Node: the agent itself, and the command that starts a holder. */
export interface AgentPrograms {
  readonly agent: readonly [string, ...string[]]
  readonly holder: readonly [string, ...string[]]
}

/** Compiled sources are taken from PANEL_TEST_DIST, or made in `workDir`. */
export function agentPrograms(workDir: string): AgentPrograms {
  const given = process.env['PANEL_TEST_DIST']
  const dist = given ?? build(join(workDir, 'dist'))
  const agent = join(workDir, 'agent.mjs')
  const holder = join(workDir, 'holder.mjs')
  const path = (name: string): string => JSON.stringify(join(dist, 'src', name))
  writeFileSync(
    holder,
    `const { runHolder } = await import(${path('agent/holder/main.js')})\nawait runHolder(process.argv[2])\n`,
  )
  writeFileSync(
    agent,
    `import { readFileSync } from 'node:fs'
const { startAgent } = await import(${path('agent/main.js')})
const { systemClock } = await import(${path('shared/time.js')})
const options = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const say = (level) => (fields, message) => console.log(JSON.stringify({ level, message, ...fields }))
const log = { info: say('info'), warn: say('warn'), error: say('error') }
const agent = await startAgent({ ...options, clock: systemClock, log })
process.on('SIGTERM', () => void agent.stop())
await agent.closed
// The control sockets of living holders would keep the process.
process.exit(0)
`,
  )
  return { agent: [process.execPath, agent], holder: [process.execPath, holder] }
}

function build(out: string): string {
  const root = resolve(import.meta.dirname, '../..')
  mkdirSync(out, { recursive: true })
  const config = join(out, 'tsconfig.json')
  const options = {
    rootDir: root,
    outDir: out,
    noEmit: false,
    noEmitOnError: false,
    types: ['node'],
    typeRoots: [join(root, 'node_modules', '@types')],
  }
  const files = ['src/agent/main.ts', 'src/agent/holder/main.ts'].map((name) => join(root, name))
  writeFileSync(
    config,
    JSON.stringify({ extends: join(root, 'tsconfig.json'), compilerOptions: options, files, include: [] }),
  )
  execFileSync(join(root, 'node_modules', '.bin', 'tsc'), ['-p', config], { stdio: 'inherit' })
  cpSync(join(root, 'package.json'), join(out, 'package.json'))
  if (!existsSync(join(out, 'node_modules'))) symlinkSync(join(root, 'node_modules'), join(out, 'node_modules'))
  return out
}
