// @module-tag long
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startFileJob } from '../../src/shared/api/files.ts'
import { getJob } from '../../src/shared/api/jobs.ts'
import type { ServerId } from '../../src/shared/kernel/ids.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { pause, until } from '../e2e/wait.ts'

const FOLDERS = 60
const FILES = 60
/** So many folders of the tree are on their way, or, the last of them, have got their place. */
const POINTS = [0, 1, 15, 30, 45, FOLDERS, 'placed'] as const

let panel: SplitPanel
let serverId: ServerId
let folder: string
let expected: string

beforeAll(async () => {
  panel = await SplitPanel.enter()
  const templateId = await panel.makeTemplate('kills', 'echo ready; sleep 1000')
  serverId = (await panel.makeServer('kills', templateId, { diskMb: 2048 })).id
  folder = panel.filesOf(serverId)
  for (let one = 0; one < FOLDERS; one++) {
    mkdirSync(join(folder, 'tree', `d${one}`), { recursive: true })
    for (let file = 0; file < FILES; file++) {
      writeFileSync(join(folder, 'tree', `d${one}`, `f${file}`), `${one} ${file} `.repeat(500))
    }
  }
  execFileSync('tar', ['-czf', 'tree.tgz', 'tree'], { cwd: folder })
  expected = sums('tree')
}, 120_000)
afterAll(() => panel.leave(), 60_000)

/** Each file of a tree with its checksum. */
function sums(name: string): string {
  const script = 'find . -type f -print0 | sort -z | xargs -0 sha256sum'
  return execFileSync('sh', ['-c', script], { cwd: join(folder, name), encoding: 'utf8' })
}

/** What is on its way, wherever it is. */
function parts(): string[] {
  return readdirSync(folder).filter((name) => name.startsWith('.panel-'))
}

/** How many folders of the tree are on their way. */
function staged(below: string): number {
  const counts = parts().map((part) => names(join(folder, part, below)).length)
  return Math.max(0, ...counts)
}

function names(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return [] // not there yet, or no more
  }
}

describe.each(['agent', 'daemon'] as const)('a kill of the %s', (who) => {
  describe.each(['copy', 'decompress'] as const)('while a job does %s', (kind) => {
    it.each(POINTS)('at point %s leaves whole data and nothing beside it', { timeout: 180_000 }, async (point) => {
      const to = `to-${who}-${kind}-${point}`
      const work =
        kind === 'copy'
          ? { kind, from: 'tree', to, replace: false }
          : { kind, archivePath: 'tree.tgz', targetPath: to, replace: true }
      const result = kind === 'copy' ? to : join(to, 'tree')
      const { jobId } = await panel.client.call(startFileJob, { params: { serverId }, body: { work } as never })
      const isThere = (): boolean => {
        if (point === 0) return true
        if (point === 'placed') return names(join(folder, result)).length > 0
        return staged(kind === 'copy' ? '' : 'tree') >= point || names(join(folder, result)).length > 0
      }
      // Pauses, for what is watched needs the processors: a folder takes some 20 ms.
      while (!isThere()) await pause(2)
      if (who === 'agent') {
        await panel.killAgent()
        await panel.startAgent()
      } else {
        await panel.killDaemon()
        await panel.startDaemon()
      }
      await panel.online()
      const read = () => panel.client.call(getJob, { params: { jobId } })
      const job = await until(
        'the job has ended',
        async () => ((await read()).endedAt === null ? false : read()),
        120_000,
      )
      if (job.status !== 'succeeded') {
        expect(job).toMatchObject({ status: 'failed', errorCode: 'CONFLICT' })
        expect(job.error).toContain('an attempt before this one was cut off: it may have made it')
      }
      process.stdout.write(`${who} ${kind} ${point}: ${job.status}\n`)
      expect(sums(result)).toBe(expected)
      expect(sums('tree')).toBe(expected)
      expect(parts()).toEqual([])
      execFileSync('rm', ['-r', join(folder, to)])
    })
  })
})
