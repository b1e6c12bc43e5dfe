// @module-tag long
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { SourceServer } from '../../src/daemon/features/operations/migration/source/model.ts'
import { openSource } from '../../src/daemon/features/operations/migration/source/open-source.ts'
import type { Source } from '../../src/daemon/features/operations/migration/source/source.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import { type SourceProcess, startSourceProcess } from '../migration-source/source-process.ts'

const SERVERS = 200
const GIB = 1024 ** 3
const MOST_RSS_MIB = 256
const signal = new AbortController().signal
let at: SourceProcess
let source: Source

beforeAll(async () => {
  at = await startSourceProcess(
    `--servers ${SERVERS} --nodes 4 --suspended 0 --full-slots 0 --zero-slots 0 --files-per-server 8 --file-kb 656`,
  )
  const access = { url: at.url, key: at.keys.account, clientKey: null, isInsecure: false }
  source = await openSource(access, { clock: systemClock }, signal)
})
afterAll(async () => {
  await source.close()
  await at.close()
})

const rssMib = (): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${at.pid}/status`, 'utf8'))?.[1]) / 1024

/** Makes a backup, fetches it whole and removes it; how many bytes came. */
async function fetched(server: SourceServer): Promise<number> {
  const files = source.files ?? expect.fail()
  let backup = await files.createBackup(server, { name: 'whole', ignored: [] }, signal)
  while (backup.state === 'pending') {
    await systemClock.sleep(50)
    backup = (await files.backup(server, backup.uuid, signal)) ?? expect.fail()
  }
  const { url } = await files.download(server, backup.uuid, signal)
  const { body } = await fetch(url)
  const hash = createHash('sha1')
  let bytes = 0
  for await (const piece of body ?? []) {
    hash.update(piece)
    bytes += piece.length
  }
  expect([hash.digest('hex'), bytes]).toEqual([backup.sha1, backup.bytes])
  await files.deleteBackup(server, backup.uuid, signal)
  return bytes
}

it('gives 200 servers with 1 GiB of files, and never has them in its memory', async () => {
  await at.setFaults({ throttle: 100_000 })
  const manifest = Object.values(await at.manifest()).flatMap((files) => Object.values(files))
  expect(manifest.reduce((sum, { size }) => sum + size, 0)).toBeGreaterThan(GIB)
  const { items } = await source.servers(signal)
  expect(items).toHaveLength(SERVERS)
  const next = items.values()
  let most = 0
  const work = async (): Promise<void> => {
    for (const server of next) {
      await fetched(server)
      most = Math.max(most, rssMib())
    }
  }
  await Promise.all([work(), work(), work()])
  expect(most).toBeLessThan(MOST_RSS_MIB)
  expect(await at.changes()).toEqual([])
})
