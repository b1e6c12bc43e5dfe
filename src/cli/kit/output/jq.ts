import { setFlagsFromString } from 'node:v8'
import { usage } from '../failure.ts'
import { plainJq } from './plain-jq.ts'

/** The results of a jq expression over a value, one a line; strings without quotes, as `jq -r` prints them. */
export async function runJq(value: unknown, expression: string): Promise<string> {
  const lines = plainJq(value, expression)
  if (lines !== undefined) return lines.map((line) => `${line}\n`).join('')
  // jq runs for moments: to compile it thoroughly would take longer than it runs.
  setFlagsFromString('--liftoff-only')
  const { raw } = await import('jq-wasm')
  const result = await raw(JSON.stringify(value ?? null), expression, ['-c', '-r'])
  if (result.exitCode !== 0) {
    const reason = result.stderr.split('\n')[0] ?? ''
    throw usage(`the jq expression failed: ${reason.replace(/^jq: (error: )?/, '')}`)
  }
  return result.stdout === '' ? '' : `${result.stdout}\n`
}
