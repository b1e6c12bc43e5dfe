// What runs in the small machine: the agent's own rooms, on file systems and with control groups that this machine may not have.
import { spawnSync } from 'node:child_process'
import { chownSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { DiskLimits } from './src/agent/disk/disk-limits.js'
import { HeldRuns } from './src/agent/runtime/held-runs.js'
import { ProcessRuntime } from './src/agent/runtime/process/process-runtime.js'
import { ServerUsers } from './src/agent/runtime/server-users.js'
import { systemClock as clock } from './src/shared/kernel/time.js'

const MIB = 1024 * 1024
const result = (value) => console.log(`\nRESULT ${JSON.stringify(value)}`)
const warnings = []
const log = { info() {}, warn: (fields) => warnings.push(fields), error: (fields) => warnings.push(fields) }

const asUser = (uid, ...argv) =>
  spawnSync(
    'setpriv',
    [`--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--bounding-set=-all', '--inh-caps=-all', ...argv],
    {
      encoding: 'utf8',
    },
  )
const sizeMb = (path) => Math.round(statSync(path).size / MIB)

async function quota(type) {
  const dataDir = `/data/${type}`
  const limits = new DiskLimits({ dataDir, clock, log })
  const files = `${dataDir}/servers/new`
  mkdirSync(`${dataDir}/servers`, { recursive: true })
  const server = { id: 'new', files, limitMb: 20, isStopped: true }
  const hold = await limits.hold(server)
  chownSync(files, 70001, 70001)
  const write = (to, mib) => asUser(70001, 'dd', 'if=/dev/zero', `of=${to}`, 'bs=1M', `count=${mib}`)
  const ended = write(`${files}/grown`, 60)
  const atLimit = sizeMb(`${files}/grown`)
  const usedMb = Math.round(await limits.usedMb('new'))
  // Enlarged while it runs.
  await limits.hold({ ...server, limitMb: 50, isStopped: false })
  write(`${files}/more`, 60)
  const enlarged = sizeMb(`${files}/grown`) + sizeMb(`${files}/more`)
  // A folder of the time before.
  const old = `${dataDir}/servers/old`
  mkdirSync(`${old}/inner`, { recursive: true })
  writeFileSync(`${old}/inner/world`, Buffer.alloc(8 * MIB))
  for (const path of [old, `${old}/inner`, `${old}/inner/world`]) chownSync(path, 70002, 70002)
  const plain = { id: 'old', files: old, limitMb: 20, isStopped: false }
  const running = await limits.hold(plain)
  const taken = await limits.hold({ ...plain, isStopped: true })
  asUser(70002, 'dd', 'if=/dev/zero', `of=${old}/inner/grown`, 'bs=1M', 'count=60')
  const ids = Object.values(JSON.parse(readFileSync(`${dataDir}/quotas.json`, 'utf8')).servers).map(({ id }) => id)
  spawnSync('busybox', ['rm', '-rf', files])
  await limits.release('new', files)
  const left = Object.keys(JSON.parse(readFileSync(`${dataDir}/quotas.json`, 'utf8')).servers)
  result({
    of: type,
    hold,
    ended: ended.status,
    atLimit,
    usedMb,
    enlarged,
    running,
    taken,
    oldMb: 8 + sizeMb(`${old}/inner/grown`),
    ids: new Set(ids).size,
    left,
    warnings: warnings.splice(0),
  })
}

/** Asks until the answer is one; `undefined` when it never was. */
async function until(ask, withinMs = 60_000) {
  for (const deadline = performance.now() + withinMs; performance.now() < deadline; await sleep(100)) {
    const answer = await ask()
    if (answer !== undefined && answer !== false) return answer
  }
  return undefined
}

async function cgroups() {
  const dataDir = '/tmp/agent'
  const runs = new HeldRuns({ execArgv: [process.execPath, '/panel/bin/panel.js', '__holder'], clock })
  const runtime = new ProcessRuntime({ dataDir, runs, users: new ServerUsers(dataDir), clock })
  const report = await runtime.probe()
  const place = { serverId: 'game', files: `${dataDir}/servers/game`, state: `${dataDir}/state/game` }
  for (const folder of [dataDir, `${dataDir}/servers`, `${dataDir}/state`])
    mkdirSync(folder, { recursive: true, mode: 0o711 })
  await runtime.prepare(place)
  const limits = { memoryMb: 64, swapMb: 0, cpuCores: 0.5, pids: 20, cpuSet: '1', ioWeight: 505 }
  let number = 0
  const start = (script, change = {}) =>
    runtime.start(place, {
      kind: 'game',
      launchId: `run${number++}`,
      argv: ['/bin/sh', '-c', script],
      env: { PATH: '/bin' },
      image: null,
      ports: [],
      limits: { ...limits, ...change },
      logMb: 8,
    })
  const groupOf = (pid) => `/sys/fs/cgroup${readFileSync(`/proc/${pid}/cgroup`, 'utf8').trim().split('::')[1]}`
  const knobsOf = (group) => {
    const knob = (name) => (existsSync(`${group}/${name}`) ? readFileSync(`${group}/${name}`, 'utf8').trim() : null)
    return {
      memory: knob('memory.max'),
      cpu: knob('cpu.max'),
      pids: knob('pids.max'),
      cpus: knob('cpuset.cpus.effective'),
      io: knob('io.weight'),
    }
  }
  const end = async (run) => {
    if (run.pid !== null) await run.signal('SIGKILL')
    const exit = await run.exited
    await runs.forget(place, exit.launchId)
    return { code: exit.code, signal: exit.signal, oom: exit.oom }
  }

  const quiet = await start('exec sleep 600')
  if (quiet.pid === null) throw new Error(`the run has ended: ${JSON.stringify(await quiet.exited)}`)
  const group = groupOf(quiet.pid)
  const atStart = knobsOf(group)
  const outside = readFileSync('/proc/self/cgroup', 'utf8').trim()
  const grown = await quiet.resize({ ...limits, memoryMb: 128, cpuCores: 1.5 })
  const afterGrowth = knobsOf(group)
  const killed = await end(quiet)
  const isGone = (await until(() => !existsSync(group), 10_000)) === true

  // The kernel ends it, and its own count says so.
  const hog = await start('exec /bin/node -e "const all=[];for(;;)all.push(Buffer.alloc(8388608,1))"')
  const hogGroup = groupOf(hog.pid)
  let events = ''
  const watching = setInterval(() => {
    if (existsSync(`${hogGroup}/memory.events`)) events = readFileSync(`${hogGroup}/memory.events`, 'utf8')
  }, 5)
  const hogExit = await hog.exited
  clearInterval(watching)
  await runs.forget(place, hogExit.launchId)
  // What ends by itself with the same code was not ended for its memory.
  const plain = await start('kill -9 $$')
  const plainExit = await plain.exited
  await runs.forget(place, plainExit.launchId)

  // Its own user's limit would be met at the same number, so the group gets a smaller one while it runs.
  const spawning =
    "const {spawn}=require('child_process');setInterval(()=>spawn('sleep',['60']).on('error',()=>{}),200)"
  const forks = await start(`exec /bin/node -e "${spawning}"`, { pids: 60 })
  const forksGroup = groupOf(forks.pid)
  const fewer = await forks.resize({ ...limits, pids: 20 })
  const refusals = await until(
    () => Number(/^max (\d+)/m.exec(readFileSync(`${forksGroup}/pids.events`, 'utf8'))?.[1]) || undefined,
  )
  const tasks = Number(readFileSync(`${forksGroup}/pids.current`, 'utf8'))
  const { processes } = await forks.stats()
  await end(forks)

  const cores = async (run) => {
    await run.stats()
    await sleep(4000)
    return (await run.stats()).cpuCores
  }
  const busy = await start('while :; do :; done')
  const halfCore = await cores(busy)
  const quarter = await busy.resize({ ...limits, cpuCores: 0.25 })
  const quarterCore = await cores(busy)
  await end(busy)

  // Above its new limit it would be ended, so it keeps the old one.
  const full = await start('exec /bin/node -e "const all=Buffer.alloc(100*1048576,1);setInterval(()=>all,1000)"', {
    memoryMb: 300,
  })
  const fullGroup = groupOf(full.pid)
  await until(() => Number(readFileSync(`${fullGroup}/memory.current`, 'utf8')) > 100 * MIB)
  const tooSmall = await full.resize({ ...limits, memoryMb: 64 })
  const kept = knobsOf(fullGroup)
  const fullEnd = await end(full)

  result({
    of: 'cgroups',
    limits: report.limits,
    reason: report.reason,
    cpuSets: report.cpuSets,
    ioWeights: report.ioWeights,
    isInGroupOfItsOwn: group.includes('panel-run0') && !outside.includes('panel-run0'),
    atStart,
    grown,
    afterGrowth,
    killed,
    isGone,
    hog: { signal: hogExit.signal, oom: hogExit.oom },
    oomEvents: Number(/^oom_kill (\d+)/m.exec(events)?.[1] ?? 0),
    plain: { signal: plainExit.signal, oom: plainExit.oom },
    fewer,
    refusals,
    tasks,
    processes,
    halfCore,
    quarter,
    quarterCore,
    tooSmall,
    kept,
    full: fullEnd,
  })
}

for (const work of [() => quota('ext4'), () => quota('xfs'), cgroups]) {
  try {
    await work()
  } catch (error) {
    result({ failed: String(error?.stack ?? error), warnings })
  }
}
process.exit(0)
