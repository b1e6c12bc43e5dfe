import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runPanel } from '../run-panel.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-folder-'))
  await writeFile(join(folder, 'file'), '')
  // Nobody, root included, opens a folder for writing.
  await mkdir(join(folder, 'odd', 'daemon.lock'), { recursive: true })
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('a data folder that cannot be used', () => {
  it.each([
    // Which of the two is seen first depends on what is looked for in it.
    ['file', /there is a file of that name|a part of its path is no folder/],
    ['file/below', /a part of its path is no folder/],
    ['odd', /daemon\.lock in it is a folder/],
  ])('is named with what to do: %s', async (name, why) => {
    const dataDir = join(folder, name)
    for (const command of [['daemon', 'run'], ['up']]) {
      const args = [...command, '--listen', '127.0.0.1:0', '--data-dir', dataDir]
      const ran = await runPanel(args, { env: { HOME: folder } })
      expect([ran.code, ran.stdout, ran.stderr]).toEqual([14, '', expect.stringMatching(why)])
      expect(ran.stderr).toContain(`panel: the data folder ${dataDir} cannot be used: `)
      expect(ran.stderr).toContain('--data-dir')
    }
  })
})
