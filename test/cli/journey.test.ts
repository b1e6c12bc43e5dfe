import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startPanel } from '../panel.ts'
import type { RunOptions } from '../run-panel.ts'
import { runBriefly } from './command-walk.ts'

let panel: Awaited<ReturnType<typeof startPanel>>

const run = (args: readonly string[], options: RunOptions = {}) =>
  runBriefly(args, {
    ...options,
    env: { HOME: panel.home, PANEL_URL: panel.url, PANEL_TOKEN: panel.adminToken, ...options.env },
  })

beforeAll(async () => {
  panel = await startPanel()
})

afterAll(async () => {
  await panel.close()
})

describe('the command line against a real daemon', () => {
  it('makes, shows by name, edits and deletes a location', async () => {
    const made = await run(['locations', 'create', '--name', 'berlin', '-o', 'json'])
    expect(made).toMatchObject({ code: 0, stderr: '' })
    const { id } = JSON.parse(made.stdout)
    expect((await run(['locations', 'view', 'berlin', '-o', 'id'])).stdout).toBe(`${id}\n`)
    expect((await run(['locations', 'create', '--name', 'berlin'])).code).toBe(7)
    expect((await run(['locations', 'edit', id, '--description', 'rack 4'])).code).toBe(0)
    expect((await run(['locations', 'delete', 'berlin'])).code).toBe(2)
    expect((await run(['locations', 'delete', 'berlin', '--yes'])).code).toBe(0)
    expect((await run(['locations', 'delete', id, '--yes'])).code).toBe(6)
    expect((await run(['locations', 'delete', id, '--yes', '--ignore-not-found'])).code).toBe(0)
  })

  it('makes a template from a file and names what is refused of another', async () => {
    const file = join(import.meta.dirname, '../../templates/openttd.yaml')
    const made = await run(['templates', 'create', '-F', file, '--name', 'journey', '-o', 'name'])
    expect(made).toMatchObject({ code: 0, stdout: 'journey\n' })
    const refused = await run(['templates', 'create', '-F', '-'], { input: 'name: x\nstartup: 5\n' })
    expect(refused.code).toBe(8)
    expect(refused.stderr).toContain('startup')
    expect((await run(['templates', 'delete', 'journey', '--yes'])).code).toBe(0)
  })

  it('makes a key with one permission: it may do that, nothing else, and nothing once it is revoked', async () => {
    const file = join(panel.home, 'reader.key')
    const args = ['api-keys', 'create', '--name', 'reader', '--permission', 'location.read', '--out-file', file]
    const made = await run(args)
    const key = (await readFile(file, 'utf8')).trim()
    expect(made.stdout + made.stderr).not.toContain(key)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    const env = { PANEL_TOKEN: key }
    expect((await run(['locations', 'list'], { env })).code).toBe(0)
    expect((await run(['users', 'list'], { env })).code).toBe(5)
    expect((await run(['api-keys', 'revoke', 'reader', '--yes'])).code).toBe(0)
    expect((await run(['locations', 'list'], { env })).code).toBe(4)
  })

  it('follows events while they happen', async () => {
    const names: string[] = []
    const tail = run(['events', 'tail', '--type', 'nest_*', '-o', 'jsonl', '--debug'], {
      onError: (text) => {
        if (names.length === 0 && /< 200 GET \/api\/admin\/events/.test(text)) {
          names.push('made')
          void run(['nests', 'create', '--name', 'seen'])
        }
        return undefined
      },
      onOutput: (text) => (text.includes('nest_created') ? 'SIGTERM' : undefined),
    })
    const { code, stdout } = await tail
    expect(code).toBe(143)
    expect(JSON.parse(stdout.split('\n')[0] ?? '')).toMatchObject({ type: 'nest_created', nestName: 'seen' })
  })

  it('answers the list, the audit log, the document and the set-up', async () => {
    expect((await run(['servers', 'list', '-o', 'json'])).code).toBe(0)
    expect(JSON.parse((await run(['audit', 'list', '--limit', '5', '-o', 'json'])).stdout).length).toBeGreaterThan(0)
    expect(JSON.parse((await run(['openapi'])).stdout)).toHaveProperty('paths')
    expect(JSON.parse((await run(['setup', 'status', '-o', 'json'])).stdout)).toEqual({ setupRequired: false })
  })
})
