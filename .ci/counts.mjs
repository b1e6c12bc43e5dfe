// Prints "<passed> <failed>" of a report of vitest's JSON reporter. A suite that failed without a failed test in it (a file
// that cannot be loaded, a hook that throws) is one failure, so is a report without any test.
import { readFileSync } from 'node:fs'

const report = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const broken = report.testResults.filter(
  ({ status, assertionResults }) =>
    status === 'failed' && !assertionResults.some((assertion) => assertion.status === 'failed'),
)
const failed = report.numFailedTests + broken.length
process.stdout.write(`${report.numPassedTests} ${report.numTotalTests === 0 ? Math.max(1, failed) : failed}\n`)
