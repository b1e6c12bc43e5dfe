/**
 * An agent as a program for tests, with the options in the file that it is given: what `panel agent run` is without
 * configuration and enrolment. It is built into few files beside bin/panel.js, as that is: most of a start is to find and
 * load modules.
 */
import { readFileSync } from 'node:fs'
import { type AgentOptions, startAgent } from '../../src/agent/main.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'

const options: AgentOptions = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8'))
const say =
  (level: string) =>
  (fields: object, message: string): void =>
    console.log(JSON.stringify({ level, message, ...fields }))
const log = { info: say('info'), warn: say('warn'), error: say('error') }

/** Resolves when the agent has ended. */
async function run(): Promise<void> {
  const agent = await startAgent({ ...options, clock: systemClock, log })
  process.on('SIGTERM', () => void agent.stop())
  await agent.closed
}

// The control sockets of living holders would keep the process.
void run().then(() => process.exit(0))
