import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { setFlagsFromString } from 'node:v8'
import { usage } from '../failure.ts'
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
  const result = raw(JSON.stringify(value ?? null), expression, ['-c', '-r'])
  if (result.exitCode !== 0) {
    const reason = result.stderr.split('\n')[0] ?? ''
    throw usage(`the jq expression failed: ${reason.replace(/^jq: (error: )?/, '')}`)
  }
  return result.stdout === '' ? '' : `${result.stdout}\n`
}
