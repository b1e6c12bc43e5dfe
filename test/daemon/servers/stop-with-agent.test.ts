import { expect, test } from 'vitest'
import { Stage } from './stage.ts'

test('a daemon stops with an agent connected, whose connection it ends', { timeout: 12_000 }, async () => {
  const stage = await Stage.open()
  const peer = await stage.peer(await stage.node())
  await stage.panel.close()
  await stage.db.close()
  expect(peer.socket.readyState).not.toBe(peer.socket.OPEN)
})
