import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { enforcedMemoryMb } from '../../../src/agent/holder/memory-limit.ts'
import { parseCpuSet } from '../../../src/shared/kernel/cpu-set.ts'
import { skippedUnless } from '../../skips.ts'
import { LIMITS, Rig, texts, until } from './rig.ts'

const CPUSET = '/sys/fs/cgroup/cpuset'
const BLKIO = '/sys/fs/cgroup/blkio'
const hasV1 = process.getuid?.() === 0 && existsSync(join(CPUSET, 'cpuset.cpus')) && existsSync(BLKIO)
const WHY_NOT = skippedUnless(hasV1, 'root and control groups of version 1')
const rig = new Rig()

afterAll(() => rig.close())

describe('a set of processors', () => {
  it('is read as the kernel writes it, and nothing else is one', () => {
    expect(parseCpuSet('0')).toEqual([0])
    expect(parseCpuSet('6,0-2,1')).toEqual([0, 1, 2, 6])
    for (const wrong of ['', ',', '1-', '-1', '2-1', '1,,2', '0x1', ' 1', '8192', '0-99999', `${'1,'.repeat(100)}1`]) {
      expect(parseCpuSet(wrong), wrong).toBeUndefined()
    }
  })
})

describe('memory', () => {
  it('is enforced with what programs need beside what they were told', () => {
    expect([100, 512, 2048, 4096, 10_240, 0, -1].map(enforcedMemoryMb)).toEqual([115, 588, 2355, 4505, 10_752, 0, -1])
  })
})

describe.skipIf(!hasV1)(`a process of a server${WHY_NOT}`, () => {
  it('keeps to its processors, has its share of disk time and its memory, and leaves no group', async () => {
    const script = 'grep Cpus_allowed_list /proc/self/status; cat /proc/self/cgroup; read x'
    const at = rig.place('sized')
    const limits = { ...LIMITS, memoryMb: 100, swapMb: 20, cpuSet: '0', ioWeight: 321 }
    const run = await rig.start(at, ['sh', '-c', script], { limits })
    const report = await rig.runtime.probe()
    expect(report).toMatchObject({ cpuSets: true })
    const groupOf = (controller: string): string => {
      const lines = readFileSync(`/proc/${run.record.pid}/cgroup`, 'utf8').split('\n')
      const line = lines.find((one) => one.split(':')[1]?.split(',').includes(controller)) ?? ''
      return `/sys/fs/cgroup/${controller}${line.split(':').slice(2).join(':')}`
    }
    const read = (controller: string, file: string): string =>
      readFileSync(join(groupOf(controller), file), 'utf8').trim()
    expect(read('cpuset', 'cpuset.cpus')).toBe('0')
    expect(Number(read('memory', 'memory.limit_in_bytes'))).toBe(115 * 1024 * 1024)
    const swap = join(groupOf('memory'), 'memory.memsw.limit_in_bytes')
    if (existsSync(swap)) expect(Number(readFileSync(swap, 'utf8'))).toBe(135 * 1024 * 1024)
    const weight = ['blkio.weight', 'blkio.bfq.weight'].find((file) => existsSync(join(groupOf('blkio'), file)))
    expect(report.ioWeights).toBe(weight !== undefined)
    if (weight !== undefined) expect(read('blkio', weight)).toContain('321')
    const groups = ['cpuset', 'blkio'].map(groupOf)
    await run.input('x')
    await run.exited
    expect(await texts(at)).toContain('Cpus_allowed_list:\t0')
    await until('no group', () => !groups.some((group) => existsSync(group)))
  })

  it('is not started on a processor that the node does not have', async () => {
    const limits = { ...LIMITS, cpuSet: '0,5000' }
    await expect(rig.start(rig.place('wrong'), ['true'], { limits })).rejects.toThrow(
      'This node has no processor 5000; it has 0',
    )
  })
})
