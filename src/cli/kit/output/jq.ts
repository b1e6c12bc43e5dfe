import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { setFlagsFromString } from 'node:v8'
import { CliFailure, usage } from '../failure.ts'
import { plainJq } from './plain-jq.ts'

/** The results of a jq expression over a value, one a line; strings without quotes, as `jq -r` prints them. */
export async function runJq(value: unknown, expression: string): Promise<string> {
  const lines = plainJq(value, expression)
  if (lines !== undefined) return lines.map((line) => `${line}\n`).join('')
  const wasmBinary = await readFile(createRequire(import.meta.url).resolve('jq-wasm/jq.wasm'))
  const { loadJq } = await import('jq-wasm')
  // jq runs for moments: to compile it thoroughly would take longer than it runs. Set when all is loaded, as V8 uses what it has ready under the
  // same flags only.
  setFlagsFromString('--liftoff-only')
  const { raw } = await loadJq({ wasmBinary })
  const result = interruptibly(() => attempt(() => raw(JSON.stringify(value ?? null), expression, ['-c'])))
  if (result.exitCode !== 0) {
    const reason = result.stderr.split('\n')[0] ?? ''
    throw usage(`the jq expression failed: ${reason.replace(/^jq: (error: )?/, '')}`)
  }
  // Around the whole of what jq prints blanks and empty lines are lost; within quotes they are not.
  const printed = result.stdout === '' ? [] : result.stdout.split('\n')
  return printed.map((line) => `${line.startsWith('"') ? JSON.parse(line) : line}\n`).join('')
}

/** An expression may have no end, and while it runs no listener is heard: signals end the program as they do without any. */
function interruptibly<T>(work: () => T): T {
  const taken = (['SIGINT', 'SIGTERM'] as const).map((name) => [name, process.listeners(name)] as const)
  for (const [name] of taken) process.removeAllListeners(name)
  try {
    return work()
  } finally {
    for (const [name, listeners] of taken) for (const listener of listeners) process.on(name, listener)
  }
}

/** An expression that takes all memory makes jq itself fall. */
function attempt<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new CliFailure('USAGE', 'the jq expression failed: it takes more memory than jq has', { cause: error })
  }
}
