import { readFile } from 'node:fs/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Catalog, isLater } from '../../../src/daemon/features/catalog/templates/catalog.ts'
import { ensureStarters, loadStarters, starterFolder } from '../../../src/daemon/features/catalog/templates/starter.ts'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { createApiKey } from '../../../src/shared/api/api-keys.ts'
import * as nests from '../../../src/shared/api/nests.ts'
import * as catalog from '../../../src/shared/api/template-catalog.ts'
import * as api from '../../../src/shared/api/templates.ts'
import { createClient } from '../../../src/shared/client.ts'
import type { Permission } from '../../../src/shared/kernel/permissions.ts'
import { type PlacePanel, refusal, startPlacePanel } from '../place-panel.ts'

let panel: PlacePanel
beforeEach(async () => {
  panel = await startPlacePanel()
})
afterEach(() => panel.close())

const install = (catalogName: string, force = false) =>
  panel.admin.call(catalog.installTemplate, { params: { catalogName }, body: { force } })
const entry = async (name: string) => (await panel.admin.call(catalog.listCatalog)).find((one) => one.name === name)
const edit = (templateId: string, body: Record<string, unknown>) =>
  panel.admin.call(api.updateTemplate, { params: { templateId: templateId as never }, body })

async function keyWith(permissions: Permission[]) {
  const { key } = await panel.admin.call(createApiKey, { body: { name: permissions.join(), permissions } })
  return createClient({ baseUrl: panel.url, fetch, token: key })
}

/** As an older program would have left it. */
async function makeOlder(templateId: string): Promise<void> {
  await panel.db.write(async (tx) => {
    const row = await tx.q.selectFrom('template').selectAll().where('id', '=', templateId).executeTakeFirstOrThrow()
    const definition = JSON.stringify({ ...JSON.parse(row.definition), version: '0.9.0', stopCommand: 'older' })
    await tx.q.updateTable('template').set({ definition }).where('id', '=', templateId).execute()
    const { createHash } = await import('node:crypto')
    const digest = createHash('sha256').update(definition).digest('hex')
    const noted = (await panel.settings.read(tx, 'install.catalog')).map((one) =>
      one.templateId === templateId ? { ...one, digest } : one,
    )
    await panel.settings.set(tx, 'install.catalog', noted)
  })
}

describe('the catalogue', () => {
  test('has at least twelve games, each with what a server needs to be run, seen and stopped', async () => {
    const all = [...(await new Catalog().all()).values()]
    expect(all.length).toBeGreaterThanOrEqual(13)
    expect(new Set(all.map(({ template }) => template.name)).size).toBe(all.length)
    for (const { slug, template, debianPackages, requires } of all) {
      expect(template.listens, slug).not.toBeNull()
      expect(template.version, slug).toMatch(/^\d+\.\d+\.\d+$/)
      expect(template.startupDetection.done.length > 0 || slug === 'bzflag', slug).toBe(true)
      // What is missing on a node is said by the name that installs it.
      const script = template.installScript ?? ''
      if (debianPackages.length > 0)
        expect(script, slug).toContain(`--no-install-recommends ${debianPackages.join(' ')}`)
      expect(debianPackages.length > 0 || requires !== null || slug === 'demo', slug).toBe(true)
    }
  })

  test('says what there is, what is installed, and what has an update', async () => {
    expect(await entry('bzflag')).toMatchObject({
      title: 'BZFlag',
      runtimes: ['process'],
      debianPackages: ['bzflag-server'],
      installed: null,
      updateAvailable: false,
    })
    const made = await install('bzflag')
    expect(made).toMatchObject({
      outcome: 'created',
      name: 'BZFlag',
      nest: { name: 'Starter' },
      query: { protocol: 'bzflag' },
    })
    const installed = { templateId: made.id, name: 'BZFlag', version: made.version, edited: false }
    expect(await entry('bzflag')).toMatchObject({ installed, updateAvailable: false })
    await makeOlder(made.id)
    expect(await entry('bzflag')).toMatchObject({
      installed: { ...installed, version: '0.9.0' },
      updateAvailable: true,
    })
    expect(await install('bzflag')).toMatchObject({
      id: made.id,
      outcome: 'updated',
      stopCommand: '',
      version: made.version,
    })
    expect(await entry('bzflag')).toMatchObject({ installed, updateAvailable: false })
    const { last } = await panel.bus.bounds()
    expect(await install('bzflag')).toMatchObject({ outcome: 'unchanged' })
    expect((await panel.bus.bounds()).last).toBe(last)
    const rows = await panel.admin.call(listAuditLogs, { query: { action: 'template.install' } })
    expect(rows.map((row) => row.resourceId)).toEqual([made.id, made.id])
  })

  test('overwrites what people have edited with force alone, and leaves its name and nest', async () => {
    const made = await install('mumble')
    const nest = await panel.admin.call(nests.createNest, { body: { name: 'Voices' } })
    await edit(made.id, { name: 'Talk', nestId: nest.id, stopTimeoutSeconds: 99 })
    expect(await entry('mumble')).toMatchObject({ installed: { name: 'Talk', edited: true } })
    expect(await refusal(install('mumble'))).toMatchObject({ code: 'TEMPLATE_EDITED' })
    expect(await install('mumble', true)).toMatchObject({
      id: made.id,
      name: 'Talk',
      nest: { name: 'Voices' },
      stopTimeoutSeconds: made.stopTimeoutSeconds,
    })
    expect(await entry('mumble')).toMatchObject({ installed: { name: 'Talk', edited: false } })
  })

  test('takes a template of the same name for the work of a person', async () => {
    const own = await panel.admin.call(api.createTemplate, { body: { name: 'BZFlag', startup: './own' } })
    expect(await entry('bzflag')).toMatchObject({ installed: { templateId: own.id, edited: true } })
    expect(await refusal(install('bzflag'))).toMatchObject({ code: 'TEMPLATE_EDITED' })
    expect(await install('bzflag', true)).toMatchObject({ id: own.id, outcome: 'updated' })
  })

  test('knows the starters that an installation was given, and makes a deleted one again when it is asked to', async () => {
    const starters = await loadStarters(starterFolder())
    await panel.db.write((tx) => ensureStarters(tx, panel, starters))
    const given = await entry('teeworlds')
    expect(given).toMatchObject({ installed: { edited: false }, updateAvailable: false })
    expect(await install('teeworlds')).toMatchObject({ outcome: 'unchanged' })
    await panel.admin.call(api.deleteTemplate, { params: { templateId: given?.installed?.templateId as never } })
    expect(await entry('teeworlds')).toMatchObject({ installed: null })
    expect(await install('teeworlds')).toMatchObject({ outcome: 'created' })
  })

  test('is no way to edit templates for those who may only create them', async () => {
    const creator = await keyWith(['template.read', 'template.create'])
    const asCreator = (force: boolean) =>
      creator.call(catalog.installTemplate, { params: { catalogName: 'wesnoth' }, body: { force } })
    const made = await asCreator(false)
    expect(made).toMatchObject({ outcome: 'created' })
    expect(await asCreator(false)).toMatchObject({ outcome: 'unchanged' })
    await makeOlder(made.id)
    expect(await refusal(asCreator(true))).toMatchObject({ code: 'PERMISSION_DENIED' })
    expect(await refusal(install('no-such-game'))).toMatchObject({ code: 'TEMPLATE_NOT_FOUND' })
    expect(await refusal(install('../demo'))).toMatchObject({ code: 'VALIDATION_ERROR' })
  })

  test('compares versions by their numbers', () => {
    expect(isLater('1.10.0', '1.9.9')).toBe(true)
    expect(isLater('1.0.0', '1.0.0')).toBe(false)
    expect(isLater('0.9.0', '1.0.0')).toBe(false)
    expect(isLater('2.0', '1.0.0')).toBe(false)
    expect(isLater('1.0.0', 'PTDL')).toBe(false)
  })

  test('is described, entry by entry, on the page that comes with it', async () => {
    const page = await readFile(new URL('../../../templates/README.md', import.meta.url), 'utf8')
    for (const { slug, debianPackages } of (await new Catalog().all()).values()) {
      expect(page, slug).toContain(`${slug}.yaml`)
      for (const name of debianPackages) expect(page, slug).toContain(name)
    }
  })
})

test('refuses a query of a variable that there is not, and level rules that are no expressions', async () => {
  const send = (body: Record<string, unknown>) =>
    panel.admin.call(api.createTemplate, { body: { name: 'Game', startup: './run', ...body } })
  expect((await refusal(send({ query: { protocol: 'source', port: 'QUERY_PORT' } }))).fields).toEqual([
    'body.query.port',
  ])
  expect((await refusal(send({ query: { protocol: 'gopher' } }))).fields).toEqual(['body.query.protocol'])
  const rule = { level: 'warn', kind: 'regex' }
  const bad = await refusal(
    send({
      logLevels: [
        { ...rule, value: 'ok' },
        { ...rule, value: '(?=x)' },
      ],
    }),
  )
  expect(bad.fields).toEqual(['body.logLevels.1.value'])
  const variables = [{ name: 'QUERY_PORT', default: '27016' }]
  const made = await send({ query: { protocol: 'source', port: 'QUERY_PORT' }, variables })
  expect(made).toMatchObject({ query: { protocol: 'source', port: 'QUERY_PORT' }, logLevels: [] })
})
