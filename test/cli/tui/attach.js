// Runs the console screen against one daemon; started in a pane of tmux by the tests of this folder.
// argv: <folder of the compiled program> <JSON with baseUrl, historyPath and what is not default>
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [dist, text] = process.argv.slice(2)
const wishes = JSON.parse(text)
const load = (path) => import(pathToFileURL(join(dist, path)).href)
const { runConsole } = await load('src/cli/tui/app.js')
const { createStreamOpener } = await load('src/cli/stream.js')
const { createClient } = await load('src/shared/client.js')
const { systemClock } = await load('src/shared/time.js')

const access = {
  baseUrl: wishes.baseUrl,
  token: 'test-token',
  fetch: globalThis.fetch,
  clock: systemClock,
  headers: { 'x-test-pid': String(process.pid) },
}

if (wishes.report !== undefined) {
  const { appendFileSync } = await import('node:fs')
  const report = () =>
    appendFileSync(wishes.report, `${JSON.stringify({ ...process.memoryUsage(), cpu: process.cpuUsage() })}\n`)
  setInterval(report, 250).unref()
}
if (wishes.crashFile !== undefined) {
  setInterval(() => {
    if (existsSync(wishes.crashFile)) throw new Error('crashed on purpose')
  }, 50).unref()
}

try {
  process.exitCode = await runConsole({
    client: createClient(access),
    openStream: createStreamOpener(access),
    server: { id: 'srv_1', name: 'survival-1', nodeName: 'node-a' },
    contextName: 'prod',
    tail: 200,
    readOnly: false,
    detachKeys: 'ctrl-]',
    clock: systemClock,
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    ...wishes,
  })
} catch (error) {
  process.stderr.write(`failed: ${error.code ?? ''} ${error.message}\n`)
  process.exitCode = 1
}
