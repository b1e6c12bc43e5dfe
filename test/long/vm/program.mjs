// What runs in the small machine: the agent's own rooms, on file systems that this machine may not have.
import { spawnSync } from 'node:child_process'
import { chownSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { DiskLimits } from './src/agent/disk/disk-limits.js'
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

for (const work of [() => quota('ext4'), () => quota('xfs')]) {
  try {
    await work()
  } catch (error) {
    result({ failed: String(error?.stack ?? error), warnings })
  }
}
process.exit(0)
