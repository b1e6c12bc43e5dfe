import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { updateNode } from '../../../src/shared/api/nodes.ts'
import type { NodeId } from '../../../src/shared/kernel/ids.ts'
import { failedSteps, MigrationStage } from './migration-stage.ts'

let stage: MigrationStage

beforeAll(async () => {
  const none = { suspended: 0, fullSlots: 0, zeroSlots: 0 }
  stage = await MigrationStage.open({
    source: {
      ...{ servers: 3, nodes: 1, filesPerServer: 1, fileKb: 1, ...none },
      customize: ({ servers }) => {
        for (const { limits } of servers) Object.assign(limits, { cpu: 0, memory: 1024 })
      },
    },
  })
})

afterAll(() => stage.close())

describe('servers that come to a node which has no room for them', () => {
  const phases = ['servers']

  it('are named in the plan by what is missing, cores as well as memory', async () => {
    const bound = { memoryOverallocatePercent: 0, cpuOverallocatePercent: 0 }
    const body = { maxMemoryMb: 2048, maxCpuCores: 4, ...bound }
    await stage.panel.client.call(updateNode, { params: { nodeId: stage.panel.nodeId as NodeId }, body })
    const planned = await stage.moved({ dryRun: true, phases })
    const texts = planned.plan?.conflicts.map(({ code, text }) => `${code} ${text.replace(/^.* need /, '')}`)
    expect(texts).toEqual([
      'CAPACITY 8 cores; 4 are free',
      'CAPACITY 3072 MiB of memory; 2048 MiB are free, and 12 cores; 4 are free',
    ])
    const options = { unlimited: { cpuCores: 1 } }
    const less = await stage.moved({ dryRun: true, phases, options })
    expect(less.plan?.conflicts.map(({ text }) => text.replace(/^.* need /, ''))).toEqual([
      '3072 MiB of memory; 2048 MiB are free',
    ])
  })

  it('come all the same where that is decided', async () => {
    const job = await stage.moved({ phases, options: { conflicts: { port: 'remap', capacity: 'warn' } } })
    expect({ outcome: job.outcome, failed: failedSteps(job) }).toEqual({ outcome: 'clean', failed: [] })
    expect(await stage.servers()).toHaveLength(3)
    expect(job.plan?.warnings.filter((text) => text.includes('cores; 4 are free'))).toHaveLength(2)
  })
})
