import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { processFacts } from '../../src/agent/holder/proc.ts'
import { AgentStage, gameSpec } from '../agent/agent-stage.ts'
import { nestFolders } from '../agent/files/hostile-tree.ts'
import { isRoot, LIMITS, Rig, texts, until } from '../agent/runtime/rig.ts'

let rig: Rig

beforeEach(() => {
  rig = new Rig()
})
afterEach(() => rig.close(), 30_000)

/** What a shell script of a game prints, and how it ends. */
async function play(name: string, script: string, more: Parameters<Rig['start']>[2] = {}) {
  const place = rig.place(name)
  const run = await rig.start(place, ['sh', '-c', script], more)
  const exit = await run.exited
  return { place, exit, said: await texts(place), errors: await texts(place, 'stderr') }
}

describe.runIf(isRoot)('a game with a user of its own (skipped unless root)', () => {
  it('fills no memory of the machine through shared folders, and leaves nothing there', async () => {
    const small = { ...LIMITS, memoryMb: 64 }
    const name = `panel-attack-${process.pid}`
    const script = `
      for folder in /dev/shm /tmp /var/tmp; do
        head -c 40000000 /dev/zero > $folder/${name} && echo "$folder $(stat -c %s $folder/${name})"
      done
      ls -A /dev/shm | wc -l; df -k /tmp | tail -1 | awk '{ print $2 }'`
    const { said, errors } = await play('shm', script, { limits: small })
    // One room for all of them, of the size of the memory limit.
    expect(said).toEqual(['/dev/shm 40000000', '1', String(64 * 1024)])
    expect(errors.filter((line) => /space left/.test(line)).length).toBe(2)
    const left = ['/dev/shm', '/tmp', '/var/tmp']
      .map((folder) => `${folder}/${name}`)
      .filter((file) => existsSync(file))
    for (const file of left) rmSync(file)
    expect(left).toEqual([])
  })

  it('leaves no segments of shared memory and no queues behind', async () => {
    const before = ipcOfMachine()
    const { said } = await play(
      'ipc',
      'ipcmk -M 30000000 > /dev/null && ipcmk -Q > /dev/null && ipcs -m | grep -c 30000000',
    )
    expect(said).toEqual(['1'])
    expect(ipcOfMachine()).toBe(before)
  })

  it('makes no user namespace, and cannot allow itself any, unless its template asks for it', async () => {
    const script = `
      unshare -Ur true || echo refused; unshare -Urmpf true || echo refused
      nsenter --user --target $PPID true || echo refused
      echo 9 > /proc/sys/user/max_user_namespaces || echo fixed; id -u; stat -c %u:%g / /proc/$$`
    const { said } = await play('namespaces', script)
    const uid = said[4]
    expect(said).toEqual(['refused', 'refused', 'refused', 'fixed', uid, '0:0', `${uid}:${uid}`])
    const asked = await play('asked', script, { allowUserNamespaces: true })
    expect(asked.said.filter((line) => line === 'refused').length).toBe(1)
    expect((await rig.runtime.probe()).userNamespaces).toBe('off')
  })

  it('is gone from the machine with all its mounts', async () => {
    const mounts = execFileSync('cat', ['/proc/self/mountinfo'], { encoding: 'utf8' })
    await play('mounts', 'mount | grep -c panel')
    expect(execFileSync('cat', ['/proc/self/mountinfo'], { encoding: 'utf8' })).toBe(mounts)
  })
})

describe('the reading of a game’s output', () => {
  it('costs no more than a share of what the game may use, and loses nothing', {
    tags: ['long'],
    timeout: 30_000,
  }, async () => {
    const place = rig.place('loud')
    const limits = { ...LIMITS, cpuCores: 0.2 }
    const program = 'import sys\ni = 0\nwhile True:\n  print(i)\n  i += 1'
    const run = await rig.start(place, ['/usr/bin/python3', '-c', program], { limits, logMb: 1024 })
    const holder = await rig.holderPid(place)
    const used = (): number => processFacts(holder)?.cpuSeconds ?? 0
    await until('the first burst to be over', () => used() > 0.7)
    const [from, at] = [used(), performance.now()]
    await new Promise((resolve) => setTimeout(resolve, 2500)) // the time over which the processor is measured
    const cores = (used() - from) / ((performance.now() - at) / 1000)
    // A quarter of 0.2 cores; the game alone keeps an unpaced holder at several times that.
    expect(cores).toBeLessThan(0.08)
    await run.signal('SIGKILL')
    await run.exited
    const numbers = (await texts(place)).map(Number)
    expect(numbers.length).toBeGreaterThan(1000)
    expect(numbers.slice(0, -1).findIndex((number, i) => number !== i)).toBe(-1)
  })
})

describe('a game and its agent', () => {
  const stages: AgentStage[] = []

  beforeAll(async () => {
    if (isRoot) stages.push(await AgentStage.enter())
    stages.push(await AgentStage.enterAsOrdinaryUser())
    for (const stage of stages) await stage.startAgent()
  }, 60_000)

  afterAll(async () => {
    for (const stage of stages) await stage.leave(['srv_port', 'srv_log'])
  }, 60_000)

  /** The same with own users and without. */
  async function onEach(attack: (stage: AgentStage) => Promise<void>): Promise<void> {
    await Promise.all(stages.map(attack))
  }

  it('is stopped for what it hides from a count by names, and is deleted with all of it', {
    tags: ['long'],
    timeout: 60_000,
  }, async () => {
    await onEach(async (stage) => {
      const id = 'srv_hiding'
      const files = join(stage.dataDir, 'servers', id)
      const script = `
        mkdir hidden closed; head -c 3000000 /dev/zero > "hidden/$(printf '\\377\\n')x"; touch closed/x
        mkfifo "$(printf 'pipe\\n')"; ln -s / root; chmod 000 closed hidden; echo ready; read -r line`
      const limits = { ...gameSpec(id, 1).limits, diskMb: 2 }
      const spec = gameSpec(id, 1, {
        startup: script,
        limits,
        stop: { type: 'signal', value: 'SIGKILL', timeoutMs: 0 },
      })
      expect(await stage.peer.order(id, 1, { op: 'start', spec })).toMatchObject({ ok: true })
      const stopped = await stage.peer.report(id, 'stopped', ({ reason }) => reason?.includes('of its 2 MB') === true)
      expect(stopped.power).not.toBe('running')
      await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
      nestFolders(files, 2200)
      expect((await stage.peer.order(id, 2, { op: 'delete', keepFiles: false })).error).toBeNull()
      expect([existsSync(files), existsSync(join(stage.dataDir, 'state', id))]).toEqual([false, false])
    })
  })

  it('does not hear which process of the machine holds its port', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const address = taken.address()
    if (address === null || typeof address === 'string') throw new Error('no port')
    const { port } = address
    await onEach(async (stage) => {
      const spec = gameSpec('srv_port', 1, { ports: [{ ip: '127.0.0.1', port, primary: true }] })
      const { error } = await stage.peer.order('srv_port', 1, { op: 'start', spec })
      expect(error).toMatchObject({ code: 'PORT_IN_USE' })
      expect(error?.message).toBe(`Port 127.0.0.1:${port} (TCP) is in use by another program`)
      const report = await stage.peer.report('srv_port', 'the reason', ({ reason }) => reason !== null)
      expect(report.reason).not.toMatch(/process|node/)
      if (stage === stages[0]) expect(stage.output).toContain(`process ${process.pid}`)
    })
    taken.close()
  }, 30_000)

  it('keeps values of secret variables out of the log of an installation, however they are written', async () => {
    const secret = 'hunter2-and-more'
    const key = '-----BEGIN KEY-----\nMIIB/line-two\n-----END KEY-----'
    const script = `
      echo "the key is $TOKEN."; echo "$TOKEN$TOKEN" >&2
      printf %s hunter2-; sleep 1; printf '%s\\n' and-more
      i=0; while [ $i -lt 1024 ]; do printf 'x%s' "$TOKEN"; i=$((i+1)); done; echo
      echo "$KEY"; echo "shown: $PLAIN, $SHORT"; printf 'hunter2-'; sleep 0.7; printf 'rest\\n'
      echo "failed with $TOKEN" >&2; exit 3`
    await onEach(async (stage) => {
      const env = { TOKEN: secret, KEY: key, PLAIN: 'no secret', SHORT: 'abc', EMPTY: '' }
      const install = { script, entrypoint: 'sh', timeoutMs: 20_000 }
      const spec = gameSpec('srv_log', 1, { install, env, secrets: ['TOKEN', 'KEY', 'SHORT', 'EMPTY', 'NONE'] })
      const { error } = await stage.peer.order('srv_log', 1, { op: 'install', spec, wipe: false, thenStart: false })
      expect(error?.message).toContain('failed with ********')
      expect(error?.message).not.toContain('hunter2-and')
      const folder = join(stage.dataDir, 'state', 'srv_log', 'console')
      const log = execFileSync('sh', ['-c', 'cat "$1"/*', 'sh', folder], { encoding: 'latin1' })
      expect(log).toContain('the key is ********.')
      expect(log).toContain('shown: no secret, abc')
      expect(log).toContain('hunter2-rest')
      for (const part of ['hunter2-and', 'and-more', 'MIIB', 'line-two', 'BEGIN KEY']) expect(log).not.toContain(part)
      expect(log).toMatch(/(x\*{8}){1024}/)
      expect(stage.output).not.toContain('hunter2')
    })
  }, 60_000)
})

/** Segments and queues of the machine that users of servers own. */
function ipcOfMachine(): string {
  return execFileSync('ipcs', ['-m', '-q'], { encoding: 'utf8' })
}
