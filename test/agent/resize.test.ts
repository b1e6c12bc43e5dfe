import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { cgroupOfProcess } from '../../src/agent/holder/cgroup.ts'
import type { ServerSpec } from '../../src/shared/protocol/server-spec.ts'
import { AgentStage, gameSpec } from './agent-stage.ts'

const MIB = 1024 * 1024

let stage: AgentStage
const id = 'srv_resized'

beforeAll(async () => {
  stage = await AgentStage.enter()
  await stage.startAgent()
}, 60_000)

afterAll(async () => {
  await stage.leave([id])
}, 60_000)

/** Has some 50 MiB in its memory before it says that it is ready. */
const FULL = 'x=$(head -c 50000000 /dev/zero | tr "\\0" x); echo ready; read -r line; echo "$x" > /dev/null'

const limits = (memoryMb: number, cpuCores: number): ServerSpec['limits'] => ({
  ...{ memoryMb, swapMb: 0, cpuCores, diskMb: 100, pids: 64 },
})

/** The limits of a process's control groups, as the kernel has them: MiB, and cores. */
function kernelLimits(pid: number | null): { memoryMb: number; cores: number } {
  const place = cgroupOfProcess(pid ?? 0)
  if (place === null) throw new Error('the process is in no control group')
  const of = (dir: string | undefined, file: string): string => readFileSync(join(dir ?? '', file), 'latin1').trim()
  if (place.version === 2) {
    const [quota, period] = of(place.dir, 'cpu.max').split(' ').map(Number)
    return { memoryMb: Number(of(place.dir, 'memory.max')) / MIB, cores: (quota ?? 0) / (period ?? 1) }
  }
  const { memory, cpu } = place.dirs
  const cores = Number(of(cpu, 'cpu.cfs_quota_us')) / Number(of(cpu, 'cpu.cfs_period_us'))
  return { memoryMb: Number(of(memory, 'memory.limit_in_bytes')) / MIB, cores }
}

it('the limits of what runs change at once where the kernel holds them, are left where more is used, and the answer says which', async () => {
  const { runtimes } = stage.peer.of('hello').at(-1) ?? { runtimes: [] }
  const isKernel = runtimes.find(({ name }) => name === 'process')?.limits?.startsWith('cgroup') === true
  const spec = (generation: number, change: Partial<ServerSpec>): ServerSpec =>
    gameSpec(id, generation, { startup: FULL, ...change })
  const apply = async (generation: number, change: Partial<ServerSpec>) =>
    (await stage.peer.order(id, generation, { op: 'apply', spec: spec(generation, change) })).result
  await stage.peer.order(id, 1, { op: 'start', spec: spec(1, { limits: limits(256, 1) }) })
  const { pid } = await stage.peer.report(id, 'running', ({ power }) => power === 'running')

  const grown = await apply(2, { limits: limits(512, 2) })
  if (isKernel) {
    expect(grown).toEqual({ appliesAt: 'now', reason: null })
    expect(kernelLimits(pid)).toEqual({ memoryMb: expect.closeTo(588, 0), cores: 2 })
    expect(await apply(3, { limits: limits(200, 0.5) })).toEqual({ appliesAt: 'now', reason: null })
    expect(kernelLimits(pid)).toEqual({ memoryMb: expect.closeTo(230, 0), cores: 0.5 })
    const tooLittle = await apply(4, { limits: limits(16, 0.5) })
    expect(tooLittle).toMatchObject({
      appliesAt: 'next-start',
      reason: expect.stringMatching(/uses \d+ MiB .* \(16 MiB\)/),
    })
    expect(kernelLimits(pid).memoryMb).toBeCloseTo(230, 0)
  } else {
    expect(grown).toMatchObject({ appliesAt: 'next-start', reason: expect.stringContaining('control groups') })
  }
  const other = await apply(5, { limits: limits(16, 0.5), env: { A: '1' } })
  expect(other).toMatchObject({ appliesAt: 'next-start' })
  expect((await stage.peer.report(id, 'running on', ({ power }) => power === 'running')).pid).toBe(pid)
})
