import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { CuttingWay, fill, growth, hashOf, MIB, Peaks } from './large-file.ts'
import { SplitPanel } from './split-panel.ts'

const SIZE = 512 * MIB

let panel: SplitPanel
let serverId: string

beforeAll(async () => {
  panel = await SplitPanel.enter()
  const templateId = await panel.makeTemplate('big', 'echo ready; sleep 1000')
  serverId = (await panel.makeServer('big', templateId, { diskMb: 2048 })).id
}, 60_000)
afterAll(() => panel.leave(), 60_000)

it('512 MiB go in and out, cut at random, whole, with less than 32 MiB more in daemon and agent and less than 200 in the command', async () => {
  const [local, copy] = [join(panel.home, 'local.bin'), join(panel.home, 'copy.bin')]
  // What a process has ready after its first transfers stays as it is.
  await panel.run(['files', 'put', serverId, 'warm.bin', '-'], { input: 'x'.repeat(64 * MIB) })
  await panel.run(['files', 'get', serverId, 'warm.bin', join(panel.home, 'warm.bin')])
  const sha256 = await fill(local, SIZE)
  const way = await CuttingWay.open(panel.url, 200 * MIB)
  const commands = new Peaks()
  try {
    const options = { env: { PANEL_URL: way.url }, onStart: commands.watch }
    const grown = await growth(panel.pids(), async () => {
      const put = await panel.run(['files', 'put', serverId, 'big.bin', local], options)
      expect(put.code, put.stderr).toBe(0)
      const got = await panel.run(['files', 'get', serverId, 'big.bin', copy], options)
      expect(got.code, got.stderr).toBe(0)
    })
    expect(await Promise.all([join(panel.filesOf(serverId), 'big.bin'), copy].map(hashOf))).toEqual([sha256, sha256])
    expect(way.cuts).toBeGreaterThan(0)
    for (const one of grown) expect(one).toBeLessThan(32)
    expect(commands.mostMib).toBeLessThan(200)
  } finally {
    await way.close()
  }
}, 180_000)
