import { expect } from 'vitest'
import { listSystemErrors } from '../../../src/shared/api/system-errors.ts'
import type { TestPanel } from '../../panel.ts'
import { callRoute, enable, isAlive, show, until, writePlugin } from './plugin-stage.ts'

/** A plugin that does what it is told by its routes. */
const CODE = `
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { writeSync } from 'node:fs'
const kept = []
export default async function activate(panel) {
  process.on('SIGTERM', () => undefined)
  const flood = () => { for (let i = 0; i < 2000; i++) panel.log.debug('x'); setImmediate(flood) }
  const eat = () => { kept.push(Buffer.alloc(16 * 1024 * 1024, 1)); setTimeout(eat, 5) }
  return {
    handlers: {
      about: async ({ query }) => ({
        pid: process.pid, uid: process.getuid(), cwd: process.cwd(), env: process.env,
        read: await readFile(query.file ?? 'plugin.json').then(() => 'read', (error) => error.code),
      }),
      loop: () => { for (;;); },
      throwIt: () => { throw new Error('the handler broke at number 97531') },
      throwLater: () => { setTimeout(() => { throw new Error('nobody caught this') }, 5); return 'soon' },
      never: () => new Promise(() => undefined),
      large: () => 'x'.repeat(2 * 1024 * 1024),
      heap: () => { for (let all = []; ; ) all.push(new Array(10000).fill(Math.sqrt(all.length))) },
      buffers: () => { eat(); return 'eating' },
      flood: () => { setImmediate(flood); return 'flooding' },
      print: () => { for (;;) writeSync(1, 'x'.repeat(65536)) },
      junk: () => { writeSync(3, 'this is no frame\\n'); return 'written' },
      child: () => spawn('/bin/sleep', ['600'], { detached: true, stdio: 'ignore', env: {} }).pid,
    },
    deactivate: () => new Promise(() => undefined),
  }
}`
const HANDLERS = [
  'about',
  'loop',
  'throwIt',
  'throwLater',
  'never',
  'large',
  'heap',
  'buffers',
  'flood',
  'print',
  'junk',
  'child',
]
const ROUTES = HANDLERS.map((handler) => ({
  method: 'GET',
  path: `/${handler.toLowerCase()}`,
  permission: 'session',
  handler,
}))

/** What the plugin sees of itself. */
export interface About {
  readonly pid: number
  readonly uid: number
  readonly cwd: string
  readonly env: Record<string, string>
  readonly read: string
}

/** Installs and enables it. */
export async function installBad(panel: TestPanel): Promise<void> {
  await writePlugin(panel.dataDir, 'bad', { manifest: { routes: ROUTES, memoryMb: 64 }, code: CODE })
  await enable(panel, 'bad')
}

/** Asks the plugin about itself as soon as it works; one that was given up is enabled again. */
export async function aboutBad(panel: TestPanel, query = ''): Promise<About> {
  await until('the plugin works', async () => {
    const { status } = await show(panel, 'bad')
    if (status === 'error') await enable(panel, 'bad')
    return status === 'enabled'
  })
  return (await callRoute(panel, `bad/about${query}`)).data as About
}

/** Does something that ends the plugin; it must be gone, reported with the reason, and work again by itself. */
export async function endsBy(panel: TestPanel, handler: string, reason: RegExp): Promise<void> {
  const isReported = async (): Promise<boolean> => (await reports(panel, 'bad')).some((text) => reason.test(text))
  // On a busy machine another rule may end it first: it is tried again until this one has.
  await until(`${handler} is reported`, async () => {
    const { pid } = await aboutBad(panel)
    await callRoute(panel, `bad/${handler}`)
    await until(`the process of ${handler} is gone`, () => !isAlive(pid))
    expect((await aboutBad(panel)).pid).not.toBe(pid)
    return await isReported()
  })
}

/** The messages of the system errors about a plugin. */
export async function reports(panel: TestPanel, name: string): Promise<string[]> {
  const rows = await panel.client.call(listSystemErrors, { query: { component: `plugin/${name}`, limit: 100 } })
  return rows.map(({ message }) => message)
}

/** Enabling a plugin with this code must be refused with the reason, and leave it disabled. */
export async function refusesToLoad(
  panel: TestPanel,
  name: string,
  of: { code: string; reason: string },
): Promise<void> {
  const routes = [{ method: 'GET', path: '/x', permission: 'session', handler: 'hello' }]
  await writePlugin(panel.dataDir, name, { manifest: { routes }, code: of.code })
  const message = expect.stringMatching(of.reason)
  await expect(enable(panel, name)).rejects.toMatchObject({ code: 'PLUGIN_ERROR', message })
  expect(await show(panel, name)).toMatchObject({ status: 'disabled', wanted: false, granted: [], keyId: null })
}
