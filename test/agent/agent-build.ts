import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DIST } from '../run-panel.ts'

/** The programs of an agent compiled for plain Node: the agent itself, and the command that starts a holder. */
export interface AgentPrograms {
  readonly agent: readonly [string, ...string[]]
  readonly holder: readonly [string, ...string[]]
}

/** Entries into the program that was compiled for the tests, written into `workDir`. */
export function agentPrograms(workDir: string): AgentPrograms {
  const agent = join(workDir, 'agent.mjs')
  const holder = join(workDir, 'holder.mjs')
  const path = (name: string): string => JSON.stringify(join(DIST, 'src', name))
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
