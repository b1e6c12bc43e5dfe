import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { runPanel } from '../run-panel.ts'
import { openAccountsPanel } from './accounts-panel.ts'

it('a connection on which nothing was ever asked does not hold up the stop', async () => {
  const panel = await openAccountsPanel()
  const port = Number(new URL(panel.url).port)
  const unused = connect(port, '127.0.0.1')
  await once(unused, 'connect')
  unused.resume()
  const ended = once(unused, 'close')
  // A whole exchange on another connection: by now the server has taken the first one, too.
  expect((await fetch(`${panel.url}/api/setup/status`)).status).toBe(200)
  await panel.close()
  await ended
})

it('a signal in the middle of the start stops it in order, as one does later', { tags: ['long'] }, async () => {
  const home = await mkdtemp(join(tmpdir(), 'panel-stopping-'))
  try {
    let isTold = false
    const words = ['daemon', 'run', '--listen', '127.0.0.1:0', '--data-dir', join(home, 'data')]
    const { code, signal, stdout } = await runPanel(words, {
      env: { HOME: home },
      onOutput: (text) => {
        if (isTold || !text.includes('database migrated')) return undefined
        isTold = true
        return 'SIGTERM'
      },
    })
    expect([code, signal]).toEqual([0, null])
    expect(stdout).toContain('daemon stopped')
  } finally {
    await rm(home, { recursive: true, force: true })
  }
})
