// @module-tag long
import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { SERVER_ID, startPeer } from '../cli/tui/peer.ts'
import { pause } from '../e2e/wait.ts'
import { DIST } from '../run-panel.ts'

const SECONDS = 40

/** How long keys wait on a terminal that takes so many bytes a second, while 1,000 lines a second arrive. */
async function waitsAt(bytesPerSecond: number): Promise<{ waits: number[]; missed: number }> {
  const peer = await startPeer()
  const folder = await mkdtemp(join(tmpdir(), 'panel-slow-'))
  const over = new AbortController()
  const print = async (): Promise<void> => {
    for (let n = 0; !over.signal.aborted; n += 20) {
      peer.print(...Array.from({ length: 20 }, (_, k) => `number ${n + k} of a long and busy evening in the overworld`))
      await pause(20)
    }
  }
  try {
    const context = { current: 'prod', contexts: { prod: { url: peer.baseUrl } } }
    await writeFile(join(folder, 'cli.yaml'), JSON.stringify(context), { mode: 0o600 })
    const printing = print()
    const program = [process.execPath, join(DIST, 'bin', 'panel.js'), 'console', 'attach', SERVER_ID, '--tail', '200']
    const script = join(import.meta.dirname, 'slow-terminal.py')
    const child = spawn('python3', [script, String(bytesPerSecond), String(SECONDS), ...program], {
      env: {
        PATH: process.env['PATH'],
        HOME: folder,
        PANEL_CONFIG_DIR: folder,
        PANEL_TOKEN: 'test-token',
        TERM: 'xterm-256color',
        LANG: 'C.UTF-8',
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let out = ''
    for await (const chunk of child.stdout) out += String(chunk)
    over.abort()
    await printing
    return JSON.parse(out)
  } finally {
    over.abort()
    await peer.close()
    await rm(folder, { recursive: true, force: true })
  }
}

test.each([
  [20_000, 250],
  [5000, 600],
])('on a line of %d bytes a second keys are answered within %d ms at p90', { retry: 2 }, async (rate, most) => {
  const { waits, missed } = await waitsAt(rate)
  const sorted = waits.sort((a, b) => a - b)
  const p90 = sorted[Math.floor(sorted.length * 0.9)] ?? Number.NaN
  const seen = { keys: sorted.length, missed, medianMs: sorted[sorted.length >> 1], p90Ms: p90, worstMs: sorted.at(-1) }
  process.stdout.write(`${rate} bytes a second: ${JSON.stringify(seen)}\n`)
  expect(missed).toBe(0)
  expect(sorted.length).toBeGreaterThan(10)
  expect(p90).toBeLessThan(most)
})
