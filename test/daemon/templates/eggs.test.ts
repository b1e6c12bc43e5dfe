import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  createTemplate,
  deleteTemplate,
  exportTemplate,
  getTemplate,
  importEgg,
  listTemplates,
  updateTemplate,
} from '../../../src/shared/api/templates.ts'
import type { TemplateId } from '../../../src/shared/kernel/ids.ts'
import { readDocument } from '../../../src/shared/templates/document.ts'
import { OWN_EGGS, ownEgg } from '../../eggs/egg-files.ts'
import { Stage } from '../servers/stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.open()
})
afterAll(() => stage.close())

let count = 0
const egg = (name: string, differs: Record<string, unknown> = {}) => ({
  ...readDocument(ownEgg(name)).value,
  name: `Quarry ${++count}`,
  ...differs,
})
const exported = (templateId: TemplateId, format?: 'egg' | 'panel' | 'PLCN_v3') =>
  stage.admin.call(exportTemplate, { params: { templateId }, query: format === undefined ? {} : { format } })

it.each(OWN_EGGS.map(({ name }) => name))(
  'an egg is imported with a report, and exported as it was: %s',
  async (name) => {
    const document = egg(name)
    const made = await stage.admin.call(importEgg, { body: document })
    const { format } = made.report
    expect(made.origin?.format).toBe(format)
    expect(await exported(made.id, 'egg')).toEqual(document)
    const { report: _, ...shown } = made
    expect(await stage.admin.call(getTemplate, { params: { templateId: made.id } })).toEqual(shown)
    const [listed] = await stage.admin.call(listTemplates, { query: { search: document.name } })
    expect(listed?.origin).toEqual(made.origin)
    // What the panel exports as its own is the same template in another panel, with its egg.
    const own = await exported(made.id)
    const copy = await stage.admin.call(createTemplate, { body: { ...own, name: `copy of ${document.name}` } as never })
    expect([copy.origin, copy.report?.notes.length]).toEqual([made.origin, made.report.notes.length])
    expect(await exported(copy.id, 'egg')).toEqual({ ...document, name: `copy of ${document.name}` })
  },
)

it('an egg that is sent as a template is recognised and imported', async () => {
  const document = egg('ptdl-v2.json')
  const made = await stage.admin.call(createTemplate, { body: { ...document, allocatedMemoryMb: 2048 } as never })
  expect(made).toMatchObject({
    allocatedMemoryMb: 2048,
    origin: { format: 'PTDL_v2', uuid: null, updateUrl: 'https://example.com/quarry.json' },
    report: { format: 'PTDL_v2' },
  })
  expect(await exported(made.id, 'egg')).toEqual(document)
})

it('an egg for a template that exists replaces what it describes, and nothing that was chosen here', async () => {
  const made = await stage.admin.call(importEgg, { body: egg('ptdl-v2.json') })
  const params = { templateId: made.id }
  await stage.admin.call(updateTemplate, { params, body: { allocatedMemoryMb: 777, runtimes: ['process'] } })
  const newer = egg('ptdl-v2.json', { startup: 'java -jar {{JAR}} --new', features: ['eula'] })
  const after = await stage.admin.call(updateTemplate, { params, body: newer as never })
  expect(after).toMatchObject({
    name: made.name,
    startup: 'java -jar {{JAR | split}} --new',
    features: { eula: true },
    allocatedMemoryMb: 777,
    runtimes: ['process'],
    report: { format: 'PTDL_v2' },
  })
  expect(await exported(made.id, 'egg')).toEqual({ ...newer, name: made.name })
  await stage.admin.call(updateTemplate, { params, body: { egg: null } })
  expect((await stage.admin.call(getTemplate, { params })).origin).toBeNull()
})

it('what was edited is in the export; a template of our own has one in every version', async () => {
  const made = await stage.admin.call(importEgg, { body: egg('ptdl-v1.json') })
  await stage.admin.call(updateTemplate, { params: { templateId: made.id }, body: { stopCommand: 'end' } })
  expect(await exported(made.id, 'egg')).toMatchObject({
    config: { stop: 'end' },
    exported_at: '2021-03-04T05:06:07+00:00',
  })
  const own = await stage.template({ name: 'Own', startup: 'run {{A}} {{B | split}}', image: 'registry.example/x:1' })
  expect(await exported(own.id, 'PLCN_v3')).toMatchObject({
    meta: { version: 'PLCN_v3' },
    name: 'Own',
    startup_commands: { Default: 'run {{A}} {{B}}' },
  })
})

it('a broken egg is refused with every reason, and leaves nothing', async () => {
  const refused = async (call: Promise<unknown>): Promise<unknown> => call.catch((error: unknown) => error)
  const name = `broken ${++count}`
  const bad = egg('ptdl-v2.json', { name, startup: '', variables: [{ env_variable: 'A B' }] })
  expect(await refused(stage.admin.call(importEgg, { body: bad }))).toMatchObject({
    code: 'VALIDATION_ERROR',
    details: [{ field: 'body.variables.0.env_variable', message: 'must be letters, digits and _' }],
  })
  expect(
    await refused(stage.admin.call(createTemplate, { body: egg('ptdl-v2.json', { name, startup: '' }) as never })),
  ).toMatchObject({ details: [{ field: 'body.startup', message: 'is required' }] })
  expect(await refused(stage.admin.call(importEgg, { body: { name, startup: 'x' } }))).toMatchObject({
    details: [{ field: 'body', message: 'is no egg of Pterodactyl or Pelican' }],
  })
  const inside = { name, startup: 'x', egg: { meta: { version: 'PTDL_v7' } } }
  expect(await refused(stage.admin.call(createTemplate, { body: inside }))).toMatchObject({
    details: [{ field: 'body.egg' }],
  })
  expect(await stage.admin.call(listTemplates, { query: { search: name } })).toEqual([])
})

it('a secret of an imported template is in no export of somebody who may not edit it', async () => {
  const made = await stage.admin.call(importEgg, { body: egg('ptdl-v2.json') })
  const variables = made.variables.map((one) =>
    one.name === 'MOTD' || one.name === 'JAR'
      ? { ...one, secret: true, default: one.name === 'JAR' ? one.default : 'hunter2' }
      : one,
  )
  await stage.admin.call(updateTemplate, { params: { templateId: made.id }, body: { variables } })
  const reader = await stage.person(['template.read'])
  for (const format of ['panel', 'egg', 'PLCN_v3'] as const) {
    const shown = await reader.client.call(exportTemplate, { params: { templateId: made.id }, query: { format } })
    // The one was edited, the other is as the egg has it.
    expect(JSON.stringify(shown)).not.toMatch(/hunter2|quarry\.jar/)
  }
  const whole = JSON.stringify(await exported(made.id, 'egg'))
  for (const secret of ['hunter2', 'quarry.jar']) expect(whole).toContain(secret)
})

it('its variables are checked by their rules when a server is made, and what is not checked is shown', async () => {
  const node = await stage.node()
  const made = await stage.admin.call(importEgg, {
    body: { ...egg('ptdl-v2.json'), runtimes: ['process'], installScript: null },
  })
  const make = (environment: Record<string, string>) =>
    stage.create(made, node, { environment: { TOKEN: 'x'.repeat(32), ...environment } })
  await expect(make({ SERVER_HOSTNAME: 'x'.repeat(61) })).rejects.toMatchObject({
    details: [{ field: 'body.environment.SERVER_HOSTNAME', message: 'must be at most 60 characters' }],
  })
  await expect(make({ SEED: '', MAP_URL: '' })).rejects.toMatchObject({
    details: [{ field: 'body.environment.MAP_URL', message: 'is required' }],
  })
  const server = await make({ COLOUR: 'not a colour' })
  const shown = await stage.get(server.id)
  expect(shown.template?.variables.find(({ name }) => name === 'COLOUR')).toMatchObject({
    displayName: 'Colour',
    uncheckedRules: ['hex_color'],
  })
  await expect(stage.admin.call(deleteTemplate, { params: { templateId: made.id } })).rejects.toMatchObject({
    code: 'TEMPLATE_IN_USE',
  })
})
