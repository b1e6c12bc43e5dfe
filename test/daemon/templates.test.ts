import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import {
  addStarters,
  ensureStarters,
  loadStarters,
  starterFolder,
} from '../../src/daemon/features/catalog/templates/starter.ts'
import { createApiKey } from '../../src/shared/api/api-keys.ts'
import * as nests from '../../src/shared/api/nests.ts'
import { createServer } from '../../src/shared/api/servers.ts'
import * as api from '../../src/shared/api/templates.ts'
import { createClient } from '../../src/shared/client.ts'
import { addServer, type PlacePanel, place, refusal, startPlacePanel } from './place-panel.ts'

let panel: PlacePanel
beforeEach(async () => {
  panel = await startPlacePanel()
})
afterEach(() => panel.close())

type Body = Partial<Parameters<typeof send>[0]>
const send = (body: Record<string, unknown> & { name: string; startup: string }) =>
  panel.admin.call(api.createTemplate, { body })
const add = (body: Body = {}) => send({ name: 'Game', startup: './run', ...body })
const edit = (templateId: string, body: Record<string, unknown>) =>
  panel.admin.call(api.updateTemplate, { params: { templateId }, body })

test('makes a template with defaults and gives every field back', async () => {
  const plain = await add()
  expect(plain).toMatchObject({ runtimes: ['process'], image: '', sendSignalTo: 'SIGTERM', serverCount: 0, nest: null })
  const whole = {
    name: 'Whole',
    description: 'd',
    runtimes: ['docker', 'process'],
    image: 'debian:12',
    startup: './run --name "{{NAME}}"',
    stopCommand: 'stop',
    startupDetection: { done: [{ kind: 'regex', value: 'Done \\([0-9.]+s\\)!' }], stripAnsi: false },
    variables: [{ name: 'NAME', default: 'x', rules: ['string', 'max:5'], secret: true }],
    installScript: 'true\n',
    features: { iconUrl: 'https://example.org/i.png' },
    supportedPorts: [25565],
  }
  const made = await send(whole)
  expect(made).toMatchObject(whole)
  expect(await panel.admin.call(api.getTemplate, { params: { templateId: made.id } })).toEqual(made)
})

test('shows the default of a secret only to those who may edit the template', async () => {
  const nest = await panel.admin.call(nests.createNest, { body: { name: 'Games' } })
  const variables = [
    { name: 'RCON', default: 'hunter2', secret: true },
    { name: 'MOTD', default: 'plain' },
  ]
  const made = await add({ variables, nestId: nest.id })
  const { key } = await panel.admin.call(createApiKey, { body: { name: 'reader', permissions: ['template.read'] } })
  const reader = createClient({ baseUrl: panel.url, fetch, token: key })
  const answers = async (client: typeof reader) => [
    await client.call(api.getTemplate, { params: { templateId: made.id } }),
    (await client.call(api.listTemplates, { query: { search: 'Game' } }))[0],
    (await client.call(nests.getNest, { params: { nestId: nest.id } })).templates[0],
  ]
  const defaults = async (client: typeof reader) =>
    (await answers(client)).map((one) => one?.variables.map((variable) => variable.default))
  expect(await defaults(reader)).toEqual(Array(3).fill(['********', 'plain']))
  expect(await defaults(panel.admin)).toEqual(Array(3).fill(['hunter2', 'plain']))
})

test('edits only the named fields, and writes nothing when nothing changes', async () => {
  const made = await add({ variables: [{ name: 'A', default: '1' }], installScript: 'true\n' })
  const edited = await edit(made.id, { stopCommand: 'quit', description: null })
  expect(edited).toMatchObject({
    name: 'Game',
    stopCommand: 'quit',
    installScript: 'true\n',
    variables: made.variables,
  })
  const { last } = await panel.bus.bounds()
  await edit(made.id, { stopCommand: 'quit' })
  expect((await panel.bus.bounds()).last).toBe(last)
})

test('names what is wrong by its field', async () => {
  const fields = async (body: Body) => (await refusal(add(body))).fields
  expect(await fields({ runtimes: ['docker'] })).toEqual(['body.image'])
  const variables = [
    { name: 'A', rules: ['string', 'max:abc'] },
    { name: 'B', rules: ['sounds_nice'] },
    { name: 'C', rules: ['regex:/(/'] },
    { name: 'D', default: 'long', rules: ['max:3'] },
    { name: 'A' },
  ]
  expect(await fields({ variables })).toEqual([
    'body.variables.0.rules.1',
    'body.variables.1.rules.0',
    'body.variables.2.rules.0',
    'body.variables.3.default',
    'body.variables.4.name',
  ])
  expect(await fields({ variables: [{ name: 'PATH' }] })).toEqual(['body.variables.0.name'])
  const done = [
    { kind: 'contains', value: '(' },
    { kind: 'regex', value: '(' },
  ]
  expect(await fields({ startupDetection: { done } })).toEqual(['body.startupDetection.done.1.value'])
  const made = await add()
  expect((await refusal(edit(made.id, { runtimes: ['docker'] }))).fields).toEqual(['body.image'])
})

test('refuses a taken name and an unknown nest', async () => {
  const made = await add()
  expect((await refusal(add({ name: 'GAME' }))).code).toBe('TEMPLATE_NAME_TAKEN')
  expect((await refusal(add({ name: 'Other', nestId: 'nest_none' }))).code).toBe('NEST_NOT_FOUND')
  expect((await refusal(edit(made.id, { nestId: 'nest_none' }))).code).toBe('NEST_NOT_FOUND')
  expect((await refusal(edit('tpl_none', { name: 'x' }))).code).toBe('TEMPLATE_NOT_FOUND')
})

test('a nest shows its templates, and leaves them when it goes', async () => {
  const nest = await panel.admin.call(nests.createNest, { body: { name: 'Sandbox', icon: 'box' } })
  expect((await refusal(panel.admin.call(nests.createNest, { body: { name: 'sandbox' } }))).code).toBe(
    'NEST_NAME_TAKEN',
  )
  const params = { nestId: nest.id }
  const made = await add({ nestId: nest.id })
  expect(made.nest).toEqual({ id: nest.id, name: 'Sandbox', icon: 'box' })
  const shown = await panel.admin.call(nests.getNest, { params })
  expect(shown).toMatchObject({ templateCount: 1, templates: [{ id: made.id }] })
  const edited = await panel.admin.call(nests.updateNest, { params, body: { author: 'Ada' } })
  expect(edited).toMatchObject({ name: 'Sandbox', icon: 'box', author: 'Ada' })
  expect((await panel.admin.call(nests.listNests, { query: { search: 'sand' } })).map(({ id }) => id)).toEqual([
    nest.id,
  ])
  await panel.admin.call(nests.deleteNest, { params })
  const left = await panel.admin.call(api.getTemplate, { params: { templateId: made.id } })
  expect(left).toMatchObject({ nestId: null, nest: null })
  expect((await refusal(panel.admin.call(nests.getNest, { params }))).code).toBe('NEST_NOT_FOUND')
})

test('lists the newest first, by nest and by name', async () => {
  const nest = await panel.admin.call(nests.createNest, { body: { name: 'Sandbox' } })
  for (const name of ['One', 'Two', 'Three']) await add({ name, ...(name === 'Two' ? { nestId: nest.id } : {}) })
  const names = async (query: { search?: string; nestId?: string; limit?: number }) =>
    (await panel.admin.call(api.listTemplates, { query })).map(({ name }) => name)
  expect(await names({})).toEqual(['Three', 'Two', 'One'])
  expect(await names({ nestId: nest.id })).toEqual(['Two'])
  expect(await names({ search: 'T', limit: 1 })).toEqual(['Three'])
})

test('is not deleted while a server is made from it', async () => {
  const at = await place(panel)
  const params = { templateId: at.templateId }
  await addServer(panel, at)
  expect((await panel.admin.call(api.getTemplate, { params })).serverCount).toBe(1)
  expect((await refusal(panel.admin.call(api.deleteTemplate, { params }))).code).toBe('TEMPLATE_IN_USE')
  const free = await add()
  await panel.admin.call(api.deleteTemplate, { params: { templateId: free.id } })
  const gone = panel.admin.call(api.deleteTemplate, { params: { templateId: free.id } })
  expect((await refusal(gone)).code).toBe('TEMPLATE_NOT_FOUND')
})

test('keeps the defaults of secret variables out of the log', async () => {
  const secret = (value: string) => [{ name: 'RCON', default: value, secret: true }]
  const made = await add({ variables: secret('first-hush') })
  await edit(made.id, { variables: secret('second-hush') })
  const rows = await panel.db.read.selectFrom('auditLog').selectAll().where('resource', '=', 'template').execute()
  expect(rows.map(({ action }) => action).toSorted()).toEqual(['template.create', 'template.update'])
  expect(rows.find(({ action }) => action === 'template.update')?.details).toContain('"variables"')
  expect(JSON.stringify(rows)).not.toContain('hush')
})

test('a server is refused for values that break the rules, by the names of the variables', async () => {
  const at = await place(panel)
  const variables = [
    { name: 'PLAYERS', default: '8', required: true, rules: ['integer', 'between:1,64'] },
    { name: 'TITLE', rules: ['required', 'max:5'] },
  ]
  const { id: templateId } = await add({ variables })
  const size = { allocatedMemoryMb: 16, allocatedCpuCores: 0.1, allocatedDiskMb: 16, primaryPort: 3000 }
  const server = (environment: Record<string, string>) =>
    panel.admin.call(createServer, { body: { ...at, ...size, name: 's', templateId, environment } })
  const bad = await refusal(server({ PLAYERS: '65', OTHER: 'x' }))
  expect(bad.fields.toSorted()).toEqual([
    'body.environment.OTHER',
    'body.environment.PLAYERS',
    'body.environment.TITLE',
  ])
  expect((await server({ TITLE: 'Hello' })).environment).toEqual({ PLAYERS: '8', TITLE: 'Hello' })
})

test('brings the starter templates once and leaves an edited one as it is', async () => {
  const starters = await loadStarters(starterFolder())
  const demo = starters.find(({ name }) => name === 'Demo game')
  expect(demo?.installScript).toContain("cat > game.mjs <<'")
  expect(demo?.installScript).not.toContain('#@file')
  const ensure = () => panel.db.write((tx) => ensureStarters(tx, panel, starters))
  await ensure()
  const [row] = await panel.admin.call(api.listTemplates, { query: { search: 'Demo game' } })
  expect(row).toMatchObject({ nest: { name: 'Starter' }, installScript: demo?.installScript })
  await edit(row?.id ?? '', { stopCommand: 'halt' })
  const { last } = await panel.bus.bounds()
  await ensure()
  expect((await panel.bus.bounds()).last).toBe(last)
  const [kept] = await panel.admin.call(api.listTemplates, { query: { search: 'Demo game' } })
  expect(kept?.stopCommand).toBe('halt')
  await panel.admin.call(api.deleteTemplate, { params: { templateId: kept?.id ?? '' } as never })
  await ensure()
  expect(await panel.admin.call(api.listTemplates, { query: { search: 'Demo game' } })).toEqual([])
})

test('files that were looked at are looked at again only when they are others', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'panel-starters-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await cp(join(starterFolder(), 'teeworlds.yaml'), join(folder, 'teeworlds.yaml'))
  const names = async () => (await panel.admin.call(api.listTemplates, {})).map(({ name }) => name)
  await addStarters(panel, folder)
  expect(await names()).toEqual(['Teeworlds'])
  const [given] = await panel.admin.call(api.listTemplates, {})
  await panel.admin.call(api.deleteTemplate, { params: { templateId: given?.id ?? '' } as never })
  // Whoever looked at the files would find that this one was never given.
  await panel.db.write((tx) => panel.settings.set(tx, 'install.starters', []))
  await addStarters(panel, folder)
  expect(await names()).toEqual([])
  await panel.db.write((tx) => panel.settings.set(tx, 'install.starters', ['Teeworlds']))
  await writeFile(join(folder, 'other.yaml'), 'name: Other\nstartup: ./other\n')
  await addStarters(panel, folder)
  expect(await names()).toEqual(['Other'])
})
