// What runs in the small machine: the agent's own rooms, on file systems and with control groups that this machine may not have.
import { spawnSync } from 'node:child_process'
import { chownSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
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

async function cgroups() {
  const dataDir = '/tmp/agent'
  const runs = new HeldRuns({ execArgv: [process.execPath, '/panel/bin/panel.js', '__holder'], clock })
  const runtime = new ProcessRuntime({ dataDir, runs, users: new ServerUsers(dataDir), clock })
  const report = await runtime.probe()
  const place = { serverId: 'game', files: `${dataDir}/servers/game`, state: `${dataDir}/state/game` }
  for (const folder of [dataDir, `${dataDir}/servers`, `${dataDir}/state`])
    mkdirSync(folder, { recursive: true, mode: 0o711 })
  await runtime.prepare(place)
  const limits = { memoryMb: 64, swapMb: 0, cpuCores: 0.5, pids: 20 }
  let number = 0
  const start = (script) =>
    runtime.start(place, {
      kind: 'game',
      launchId: `run${number++}`,
      argv: ['/bin/sh', '-c', script],
      env: { PATH: '/bin' },
      image: null,
      ports: [],
      limits,
      logMb: 8,
    })
  const end = async (run) => {
    const exit = await run.exited
    await runs.forget(place, exit.launchId)
    return exit
  }
  const quiet = await start('exec sleep 600')
  if (quiet.pid === null) {
    const said = spawnSync('busybox', ['sh', '-c', `cat ${place.state}/diagnosis ${place.state}/*.err ${place.state}/console/* 2>&1`], { encoding: 'utf8' })
    throw new Error(`the run has ended: ${JSON.stringify(await quiet.exited)} ${said.stdout.slice(0, 1500)}`)
  }
  const group = readFileSync(`/proc/${quiet.pid}/cgroup`, 'utf8').trim().split('::')[1]
  const knob = (name) => readFileSync(`/sys/fs/cgroup${group}/${name}`, 'utf8').trim()
  const knobs = { memory: knob('memory.max'), cpu: knob('cpu.max'), pids: knob('pids.max') }
  await quiet.signal('SIGKILL')
  await end(quiet)
  const hog = await end(await start('exec /bin/node -e "const all=[];for(;;)all.push(Buffer.alloc(8388608,1))"'))
  const forks = await start('i=0; while [ $i -lt 40 ]; do sleep 60 & i=$((i+1)); done; wait')
  await new Promise((resolve) => setTimeout(resolve, 3000))
  const processes = (await forks.stats()).processes
  await forks.signal('SIGKILL')
  await end(forks)
  const busy = await start('while :; do :; done')
  await new Promise((resolve) => setTimeout(resolve, 2000))
  await busy.stats()
  await new Promise((resolve) => setTimeout(resolve, 4000))
  const { cpuCores } = await busy.stats()
  await busy.signal('SIGKILL')
  await end(busy)
  result({
    of: 'cgroups',
    limits: report.limits,
    reason: report.reason,
    knobs,
    hog: { oom: hog.oom, signal: hog.signal },
    processes,
    cpuCores,
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
