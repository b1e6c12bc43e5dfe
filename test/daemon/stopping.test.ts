import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readConfig } from '../../src/daemon/config/config.ts'
import { createLog } from '../../src/daemon/core/log.ts'
import { DIST, runPanel } from '../run-panel.ts'
import { openAccountsPanel } from './accounts-panel.ts'
import { leapingClock } from './leaping-clock.ts'

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

it('a start that fails leaves nothing behind that goes on', async () => {
  const home = await mkdtemp(join(tmpdir(), 'panel-stopping-'))
  try {
    const { startDaemon } = (await import(
      join(DIST, 'src/daemon/main.js')
    )) as typeof import('../../src/daemon/main.ts')
    const clock = leapingClock()
    const log = createLog({ level: 'fatal' })
    const flags = { dataDir: join(home, 'data'), listen: '127.0.0.1:0' }
    const config = readConfig(flags, { PANEL_CREDENTIAL_KEY: 'ab'.repeat(32) })
    // No certificate: the server cannot be made, while the nodes are being written as away.
    const failed = startDaemon({ ...config, tls: { cert: 'no', key: 'no' } }, { log, clock })
    await expect(failed).rejects.toThrow(/PEM/i)
    expect(clock.sleepers()).toBe(0)
    // The folder is free again, and so is all that was begun in it.
    await (await startDaemon(config, { log, clock })).close()
    expect(clock.sleepers()).toBe(0)
  } finally {
    await rm(home, { recursive: true, force: true })
  }
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
