import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Gives all tests and what they start an empty home: nothing of the person who runs them has an effect, and nothing of
 * theirs is touched. What is left there fails the run, because a program that is not told better would leave it with them.
 */
export default function setup(): () => void {
  const home = mkdtempSync(join(tmpdir(), 'panel-test-home-'))
  process.env['HOME'] = home
  return () => {
    const left = readdirSync(home, { recursive: true })
    rmSync(home, { recursive: true, force: true })
    if (left.length === 0) return
    process.stderr.write(`FAILED: the tests left in the home of who runs them: ${left.join(', ')}\n`)
    process.exitCode = 1 // an error thrown here would only be printed
  }
}
