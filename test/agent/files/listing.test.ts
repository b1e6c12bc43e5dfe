import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { listFolder } from '../../../src/shared/protocol/file-operations.ts'
import { AgentStage, gameSpec } from '../agent-stage.ts'

const SERVER = 'srv_list'

let stage: AgentStage
let folder: string
beforeAll(async () => {
  stage = await AgentStage.enter()
  await stage.startAgent()
  await stage.peer.order(SERVER, 1, { op: 'apply', spec: gameSpec(SERVER, 1) })
  folder = join(stage.dataDir, 'servers', SERVER, 'many')
  await mkdir(folder, { recursive: true })
  for (let file = 0; file < 300; file++) await writeFile(join(folder, `region.${file}.mca`), 'x'.repeat(file))
})
afterAll(() => stage.leave([SERVER]))

async function page(after: string | null, limit: number) {
  const reply = await stage.peer.request({ op: 'files.list', serverId: SERVER, path: 'many', after, limit })
  return listFolder.result.parse(reply.result)
}

/** Whether the folder was changed so long ago that its names are kept. */
async function settled(): Promise<void> {
  const { ctimeMs } = await stat(folder)
  await expect.poll(() => Date.now() - ctimeMs, { timeout: 10_000 }).toBeGreaterThan(2100)
}

async function expectAll(): Promise<void> {
  const names: string[] = []
  let after: string | null = null
  do {
    const { entries, total, next }: Awaited<ReturnType<typeof page>> = await page(after, 70)
    names.push(...entries.map(({ name }) => name))
    expect(total).toBe((await readdir(folder)).length)
    after = next
  } while (after !== null)
  expect(names).toEqual((await readdir(folder)).sort())
}

test('pages of a folder are what is in it now, also when it is listed again', async () => {
  await expectAll()
  await settled()
  await expectAll()
  await expectAll()
  await writeFile(join(folder, 'a-new-one'), '')
  await expectAll()
  await settled()
  await expectAll()
  await rm(join(folder, 'region.100.mca'))
  await rename(join(folder, 'region.7.mca'), join(folder, 'zz'))
  await expectAll()
})

test('a file that grows shows its size although the names stay', { tags: ['long'] }, async () => {
  await settled()
  await page(null, 10)
  await writeFile(join(folder, 'region.0.mca'), 'x'.repeat(5000))
  const { entries } = await page(null, 10)
  expect(entries.find(({ name }) => name === 'region.0.mca')?.size).toBe(5000)
})

test('another folder of the same name is read anew', { tags: ['long'] }, async () => {
  await settled()
  await page(null, 10)
  await rename(folder, `${folder}.old`)
  await mkdir(folder)
  await writeFile(join(folder, 'only'), '')
  expect(await page(null, 10)).toMatchObject({ total: 1, entries: [{ name: 'only' }] })
})
