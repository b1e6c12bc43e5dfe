import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApiKey } from '../../src/shared/api/api-keys.ts'
import { addServer } from '../daemon/databases/stage.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { type PostgresPeer, startPostgresPeer } from '../postgres-peer.ts'
import { walkPanel } from './command-walk.ts'
import { DATABASE_COMMANDS } from './database-command-paths.ts'

const MASK = '********'

let panel: TestPanel
let peer: PostgresPeer
let server: string
beforeAll(async () => {
  panel = await startPanel()
  peer = await startPostgresPeer()
  server = await addServer(panel)
})
afterAll(() => panel.close())

const walk = walkPanel(DATABASE_COMMANDS, () => panel)
const { run, ok, json, refused } = walk

describe('the commands of databases', { timeout: 60_000 }, () => {
  it('database hosts: create, list, view, edit, ping', async () => {
    const place = ['--engine', 'postgresql', '--host', '127.0.0.1', '--port', String(peer.port), '--user', 'panel']
    await refused(2, ['db-hosts', 'create', '--name', 'elephant', ...place])
    const made = await json(['db-hosts', 'create', '--name', 'elephant', ...place, '--password-stdin'], {
      input: 'secret\n',
    })
    expect(made).toMatchObject({ name: 'elephant', engine: 'postgresql', tls: 'auto', hasPassword: true })
    expect(await ok(['db-hosts', 'list'])).toContain(`127.0.0.1:${peer.port}`)
    const file = join(panel.home, 'password')
    await writeFile(file, 'another\n')
    await refused(2, ['db-hosts', 'edit', 'elephant'])
    await ok(['db-hosts', 'edit', 'elephant', '--max', '9', '--password-file', file])
    expect(await json(['db-hosts', 'edit', 'elephant', '--unset', 'max'])).toMatchObject({ maxDatabases: null })
    expect(await json(['db-hosts', 'view', 'elephant'])).toMatchObject({ id: made.id, maxDatabases: null })
    expect(await ok(['db-hosts', 'ping', 'elephant'])).toContain('PostgreSQL 16.2')
    await ok(['db-hosts', 'create', '--name', 'nowhere', ...place, '--password-file', file])
    await ok(['db-hosts', 'edit', 'nowhere', '--port', '1'])
    expect((await refused(11, ['db-hosts', 'ping', 'nowhere'])).stdout).toContain('nothing listens')
    await refused(11, ['databases', 'create', server, '--host', 'nowhere'])
    await ok(['db-hosts', 'delete', 'nowhere', '--yes'])
  })

  it('databases: create, list, view, rotate, delete; the password only where it is asked for', async () => {
    const made = await json(['databases', 'create', server, '--host', 'elephant', '--name', 'shop', '--show-password'])
    expect(made).toMatchObject({ name: 'shop', state: 'ready', hostName: 'elephant' })
    expect(made.password).toMatch(/^[\w-]{32}$/)
    expect(await json(['databases', 'create', server])).toMatchObject({ password: MASK })
    for (const args of [
      ['list', server],
      ['view', server, 'shop'],
      ['view', server, made.id.slice(3, 12)],
    ]) {
      const found = await run(['databases', ...args, '-o', 'json'])
      expect(found.stdout.includes(made.password)).toBe(false)
    }
    expect(await ok(['databases', 'list', server, '--show-password'])).toContain(made.password)
    expect(await json(['databases', 'view', server, 'shop', '--show-password'])).toEqual(made)
    const rotated = await json(['databases', 'rotate', server, 'shop', '--show-password'])
    expect(rotated.password).not.toBe(made.password)
    await refused(6, ['databases', 'view', server, 'nothing'])
    await refused(8, ['databases', 'create', server, '--remote', 'somewhere'])
    await refused(7, ['db-hosts', 'delete', 'elephant', '--yes'])
    await refused(2, ['databases', 'delete', server, 'shop'])
    await ok(['databases', 'delete', server, 'shop', '--confirm', 'shop'])
    await ok(['databases', 'delete', server, 'shop', '--confirm', 'shop', '--ignore-not-found'])
    const [left] = await json(['databases', 'list', server])
    const { key } = await panel.client.call(createApiKey, {
      body: { name: 'remover', permissions: ['database.delete'] },
    })
    const blind = ['databases', 'delete', server, left.id, '--confirm', left.id]
    expect(await run(blind, { token: key })).toMatchObject({ code: 0 })
    await ok(['db-hosts', 'delete', 'elephant', '--yes'])
  })

  it('databases that the panel does not manage: shown so, forgotten, adopted, dropped on demand', async () => {
    const place = ['--engine', 'postgresql', '--host', '127.0.0.1', '--port', String(peer.port), '--user', 'panel']
    await json(['db-hosts', 'create', '--name', 'shared', ...place, '--password-stdin'], { input: 'secret\n' })
    const recorded = async (name: string) => {
      const { id } = await json(['databases', 'create', server, '--host', 'shared', '--name', name])
      await panel.app.core.db.write(async (tx) => {
        await tx.q.updateTable('serverDatabase').set({ managed: 0 }).where('id', '=', id).execute()
      })
      return id
    }
    for (const name of ['one', 'two', 'three']) await recorded(name)
    expect(await ok(['databases', 'list', server])).toMatch(/MANAGED[\s\S]*one.* no /)
    expect(await refused(7, ['databases', 'rotate', server, 'one'])).toMatchObject({
      stderr: expect.stringContaining('does not manage'),
    })
    await json(['databases', 'rotate', server, 'one', '--force'])
    const gone = ['databases', 'delete', server]
    expect(await ok([...gone, 'one', '--confirm', 'one'])).toBe('')
    expect(await json([...gone, 'two', '--confirm', 'two', '--drop'])).toMatchObject({ deleted: true, dropped: true })
    expect(await json(['databases', 'adopt', server, 'three', '--yes'])).toMatchObject({ managed: true })
    expect(await json([...gone, 'three', '--confirm', 'three'])).toMatchObject({ dropped: true })
    await ok(['db-hosts', 'delete', 'shared', '--yes'])
  })

  it('leave none out', () => {
    expect(walk.left()).toEqual([])
  })
})
