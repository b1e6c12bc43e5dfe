import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { enablePlugin, getPlugin, type PluginDetail } from '../../../src/shared/api/plugins.ts'
import { type Clock, isoTime, systemClock } from '../../../src/shared/kernel/time.ts'
import { betweenLooks } from '../../looks.ts'
import type { TestPanel } from '../../panel.ts'

/** The folder of the documentation's example. */
export const EXAMPLE = join(import.meta.dirname, '../../../docs/examples/plugins/greeter')

/** A plugin that a test writes: what differs from the smallest manifest, and the code. */
export interface Written {
  readonly manifest?: Readonly<Record<string, unknown>>
  readonly code: string
}

/** Puts the documentation's example into a panel's data folder. */
export async function installExample(dataDir: string): Promise<void> {
  await cp(EXAMPLE, join(dataDir, 'plugins', 'greeter'), { recursive: true })
}

/** Writes a plugin into a panel's data folder. */
export async function writePlugin(dataDir: string, name: string, { manifest, code }: Written): Promise<void> {
  const folder = join(dataDir, 'plugins', name)
  await mkdir(folder, { recursive: true })
  const whole = { name, version: '1.0.0', engine: '*', main: 'index.mjs', ...manifest }
  await writeFile(join(folder, 'plugin.json'), JSON.stringify(whole))
  await writeFile(join(folder, 'index.mjs'), code)
}

/** Enables a plugin. */
export async function enable(panel: TestPanel, name: string, enabled = true): Promise<void> {
  await panel.client.call(enablePlugin, { params: { name }, body: { enabled } })
}

/** A plugin as the API shows it. */
export function show(panel: TestPanel, name: string): Promise<PluginDetail> {
  return panel.client.call(getPlugin, { params: { name } })
}

/** An answer of a plugin's own route. */
export interface Answer {
  readonly status: number
  readonly data: unknown
  readonly code: unknown
  readonly text: string
}

/** Calls a route that a plugin brings along. */
export async function callRoute(
  panel: TestPanel,
  path: string,
  { method = 'GET', body, token = panel.adminToken }: { method?: string; body?: unknown; token?: string | null } = {},
): Promise<Answer> {
  const response = await fetch(`${panel.url}/api/plugins/${path}`, {
    method,
    headers: {
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  const { data, code }: Record<string, unknown> = JSON.parse(text)
  return { status: response.status, data, code, text }
}

/** Waits for a condition, for 20 s at most. */
export async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  for (const start = performance.now(); !(await holds()); await betweenLooks(start)) {
    if (performance.now() > start + 20_000) throw new Error(`it did not happen: ${what}`)
  }
}

/** A clock on which everything goes `times` faster, so that pauses and time limits of seconds are short. */
export function fastClock(times: number): Clock {
  const [wallMs, startMs] = [systemClock.nowMs(), systemClock.monotonicMs()]
  const passed = (): number => (systemClock.monotonicMs() - startMs) * times
  return {
    nowMs: () => Date.parse(isoTime(Math.round(wallMs + passed()))),
    monotonicMs: passed,
    sleep: (ms, signal) => systemClock.sleep(ms / times, signal),
  }
}

/** Whether a process lives. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false // there is no such process: that is the answer
  }
}
