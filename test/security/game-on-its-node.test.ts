import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isRoot, LIMITS, Rig, texts } from '../agent/runtime/rig.ts'

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

describe.runIf(isRoot)('a game with a user of its own', () => {
  it('fills no memory of the machine through shared folders, and leaves nothing there', async () => {
    const small = { ...LIMITS, memoryMb: 64 }
    const script = `
      for folder in /dev/shm /tmp /var/tmp; do
        head -c 40000000 /dev/zero > $folder/panel-attack && echo "$folder $(stat -c %s $folder/panel-attack)"
      done
      ls -A /dev/shm /tmp | grep -v -e panel-attack -e : -e '^$'; df -k /tmp | tail -1 | awk '{ print $2 }'`
    const { said, errors } = await play('shm', script, { limits: small })
    // One room for all of them, of the size of the memory limit.
    expect(said).toEqual(['/dev/shm 40000000', String(64 * 1024)])
    expect(errors.filter((line) => /space left/.test(line)).length).toBe(2)
    for (const folder of ['/dev/shm', '/tmp', '/var/tmp']) expect(existsSync(`${folder}/panel-attack`)).toBe(false)
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
      echo 9 > /proc/sys/user/max_user_namespaces || echo fixed; id -u; stat -c %u:%g / /proc/$$`
    const { said } = await play('namespaces', script)
    const uid = said[3]
    expect(said).toEqual(['refused', 'refused', 'fixed', uid, '0:0', `${uid}:${uid}`])
    const asked = await play('asked', script, { allowUserNamespaces: true })
    expect(asked.said.filter((line) => line === 'refused')).toEqual([])
    const { capabilities } = await rig.runtime.probe()
    expect(capabilities).toContain('user namespaces: off')
  })

  it('is gone from the machine with all its mounts', async () => {
    const mounts = execFileSync('cat', ['/proc/self/mountinfo'], { encoding: 'utf8' })
    await play('mounts', 'mount | grep -c panel')
    expect(execFileSync('cat', ['/proc/self/mountinfo'], { encoding: 'utf8' })).toBe(mounts)
  })
})

/** Segments and queues of the machine that users of servers own. */
function ipcOfMachine(): string {
  return execFileSync('ipcs', ['-m', '-q'], { encoding: 'utf8' })
}
