// A reporter of vitest that ends what does not end: vitest's own limits cannot stop a test whose process is busy or blocked. After
// four minutes of one file it prints what that file has not finished and where its process stands, and kills the process; the
// other files go on. PANEL_STUCK_FILES names a file that gets the names of those that were ended.
import { appendFileSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'undici'

const LIMIT_MS = 240_000
const LOOK_MS = 5_000
const DEBUGGER_MS = 10_000

// biome-ignore lint/style/noDefaultExport: vitest looks for reporters there
export default class Stuck {
  /** Since when a process has had its title. */
  #since = new Map()
  #unfinished = new Map()
  /** One after the other: there is one port for all debuggers. */
  #ends = Promise.resolve()
  #timer

  onTestRunStart() {
    this.#timer = setInterval(() => this.#look(), LOOK_MS)
  }

  onTestModuleCollected(module) {
    this.#unfinished.set(module.relativeModuleId, module)
  }

  onTestModuleEnd(module) {
    this.#unfinished.delete(module.relativeModuleId)
    for (const key of this.#since.keys())
      if (key.endsWith(titleOf(module.relativeModuleId))) this.#since.set(key, Infinity)
  }

  onTestRunEnd() {
    clearInterval(this.#timer)
  }

  /** Goes by the titles of the processes: what a busy one reports does not arrive. */
  #look() {
    for (const { pid, title } of workers()) {
      const key = `${pid} ${title}`
      const since = this.#since.get(key) ?? performance.now()
      this.#since.set(key, since)
      if (performance.now() - since < LIMIT_MS) continue
      this.#since.set(key, Infinity)
      this.#ends = this.#ends.then(() => this.#end(pid, title))
    }
  }

  async #end(pid, title) {
    console.error(`STUCK: ${title} (${LIMIT_MS / 1000} s)`)
    for (const [file, module] of this.#unfinished) {
      const open = [...module.children.allTests()].filter((test) => test.result().state === 'pending')
      if (titleOf(file) === title)
        for (const test of open.slice(0, 5)) console.error(`  not finished: ${test.fullName}`)
    }
    console.error(await standOf(pid))
    const list = process.env['PANEL_STUCK_FILES']
    if (list !== undefined) appendFileSync(list, `${title.slice(titleOf('').length)}\n`)
    process.kill(pid, 'SIGKILL')
  }
}

/** As test/process-title.ts names the processes. */
const titleOf = (file) => `panel ${file}`

function workers() {
  return childrenOf(process.pid)
    .map((pid) => ({ pid, title: read(pid, 'cmdline').split('\0')[0] }))
    .filter(({ title }) => title.startsWith(titleOf('test/')))
}

const childrenOf = (pid) =>
  readdirSync('/proc')
    .map(Number)
    .filter((child) => child > 0 && parentOf(child) === pid)

const parentOf = (pid) => Number(/^PPid:\s+(\d+)$/m.exec(read(pid, 'status'))?.[1])

function read(pid, name) {
  try {
    return readFileSync(join('/proc', String(pid), name), 'utf8')
  } catch {
    return '' // it has ended
  }
}

/** What the kernel and the debugger say of a process, and what it has started. */
async function standOf(pid) {
  const state = `${read(pid, 'wchan')} ${/^State:.*$/m.exec(read(pid, 'status'))?.[0]}`
  const children = childrenOf(pid).map(
    (child) => `started ${child} ${read(child, 'cmdline').replaceAll('\0', ' ').slice(0, 200)}`,
  )
  const frames = await stackOf(pid).catch((error) => [`no stack: ${error.message}`])
  return [state, ...children, ...frames].map((line) => `  ${line}`).join('\n')
}

/** Where JavaScript is busy; the signal opens the debugger's port of Node, which answers from a thread of its own. */
async function stackOf(pid) {
  process.kill(pid, 'SIGUSR1')
  const socket = await debuggerOf()
  try {
    const scripts = new Map()
    const paused = new Promise((resolve) => {
      socket.addEventListener('message', ({ data }) => {
        const { method, params } = JSON.parse(data)
        if (method === 'Debugger.scriptParsed') scripts.set(params.scriptId, params.url)
        if (method === 'Debugger.paused') resolve(params.callFrames)
      })
    })
    for (const [id, method] of ['Debugger.enable', 'Debugger.pause'].entries())
      socket.send(JSON.stringify({ id, method }))
    const frames = await Promise.race([paused, sleep(DEBUGGER_MS, [])])
    if (frames.length === 0) return ['no JavaScript runs']
    return frames
      .slice(0, 30)
      .map(
        ({ functionName, location }) =>
          `at ${functionName} ${scripts.get(location.scriptId)}:${location.lineNumber + 1}`,
      )
  } finally {
    socket.close()
  }
}

async function debuggerOf() {
  for (const deadline = performance.now() + DEBUGGER_MS; performance.now() < deadline; await sleep(200)) {
    const targets = await fetch('http://127.0.0.1:9229/json/list')
      .then((answer) => answer.json())
      .catch(() => [])
    const [target] = targets
    if (target === undefined) continue
    const socket = new WebSocket(target.webSocketDebuggerUrl)
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve)
      socket.addEventListener('error', () => reject(new Error('the debugger refuses')))
    })
    return socket
  }
  throw new Error('no debugger answers')
}
