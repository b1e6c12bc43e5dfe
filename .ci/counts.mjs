// Prints "<passed> <failed>" of a report of vitest's JSON reporter. A suite that failed without a failed test in it (a file
// that cannot be loaded, a hook that throws) is one failure, so is a report without any test. With --failed-files it prints the
// files in which something failed, a line each.
import { readFileSync } from 'node:fs'

const report = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const broken = report.testResults.filter(
  ({ status, assertionResults }) =>
    status === 'failed' && !assertionResults.some((assertion) => assertion.status === 'failed'),
)
const failed = report.numFailedTests + broken.length
if (process.argv[3] === '--failed-files') {
  for (const { status, name } of report.testResults) if (status === 'failed') process.stdout.write(`${name}\n`)
} else process.stdout.write(`${report.numPassedTests} ${report.numTotalTests === 0 ? Math.max(1, failed) : failed}\n`)
