import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { NestId, TemplateId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'
import { EggDocument, EggFormat, EggOrigin, EggReport } from './template-eggs.ts'
import { LevelRule, NewTemplate } from './template-fields.ts'

/** A stored template. */
export const Template = z.object({
  id: TemplateId,
  ...NewTemplate.shape,
  /** The egg that it was made of; absent from daemons that know no eggs. */
  origin: EggOrigin.nullable().optional(),
  nest: z.object({ id: NestId, name: z.string(), icon: z.string().nullable() }).nullable(),
  serverCount: z.int(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type Template = z.infer<typeof Template>

/** What servers show of their template. */
export const TemplateLite = Template.pick({
  id: true,
  name: true,
  image: true,
  images: true,
  defaultImage: true,
  startup: true,
  startupCommands: true,
  stopCommand: true,
  console: true,
  features: true,
  variables: true,
}).extend({
  /** Absent from daemons that do not know level rules. */
  logLevels: z.array(LevelRule).optional(),
})

/** Every field of a template, each only if it is to change. Defaults do not apply. */
export const TemplatePatch = z.object(
  Object.fromEntries(
    Object.entries(NewTemplate.shape).map(([key, schema]) => [
      key,
      schema instanceof z.ZodDefault ? schema.unwrap().optional() : schema.optional(),
    ]),
  ) as { [K in keyof typeof NewTemplate.shape]: z.ZodOptional<Unwrapped<(typeof NewTemplate.shape)[K]>> }, // built key by key from that very shape
)
export type TemplatePatch = z.infer<typeof TemplatePatch>
type Unwrapped<T> = T extends z.ZodDefault<infer U> ? U : T

/** What answers show of a template beside its fields: a file made by `templates view` may be sent back. */
const ANSWERED = ['id', 'nest', 'origin', 'report', 'serverCount', 'createdAt', 'updatedAt'] as const

/** A template that was made of an egg comes with what became of the egg. */
export const ImportedTemplate = Template.extend({ report: EggReport.optional() })
export type ImportedTemplate = z.infer<typeof ImportedTemplate>

export const listTemplates = defineEndpoint({
  id: 'templates.list',
  tag: 'Templates',
  summary: 'List templates, newest first',
  method: 'GET',
  path: '/api/templates',
  access: { panel: 'template.read' },
  query: pageQuery().extend({ search: z.string().max(200).optional(), nestId: NestId.optional() }),
  response: z.array(Template),
  paged: true,
  cached: true,
})

export const getTemplate = defineEndpoint({
  id: 'templates.get',
  tag: 'Templates',
  summary: 'Show a template',
  method: 'GET',
  path: '/api/templates/:templateId',
  access: { panel: 'template.read' },
  params: { templateId: TemplateId },
  response: Template,
  errors: ['TEMPLATE_NOT_FOUND'],
  cached: true,
})

/** The body of a creation. */
export const TemplateToCreate = NewTemplate.extend({ egg: EggDocument.nullable().default(null) })

export const createTemplate = defineEndpoint({
  id: 'templates.create',
  tag: 'Templates',
  summary: 'Create a template; an egg is imported',
  method: 'POST',
  path: '/api/templates',
  access: { panel: 'template.create' },
  body: TemplateToCreate,
  ignores: ANSWERED,
  response: ImportedTemplate,
  status: 201,
  errors: ['TEMPLATE_NAME_TAKEN', 'NEST_NOT_FOUND'],
  audit: { action: 'template.create' },
})

export const updateTemplate = defineEndpoint({
  id: 'templates.update',
  tag: 'Templates',
  summary: 'Edit a template; its servers take it over at their next start',
  method: 'PUT',
  path: '/api/templates/:templateId',
  access: { panel: 'template.update' },
  params: { templateId: TemplateId },
  body: TemplatePatch.extend({ egg: EggDocument.nullable().optional() }),
  ignores: ANSWERED,
  response: ImportedTemplate,
  errors: ['TEMPLATE_NOT_FOUND', 'TEMPLATE_NAME_TAKEN', 'NEST_NOT_FOUND'],
  audit: { action: 'template.update' },
})

export const deleteTemplate = defineEndpoint({
  id: 'templates.delete',
  tag: 'Templates',
  summary: 'Delete a template that no server uses',
  method: 'DELETE',
  path: '/api/templates/:templateId',
  access: { panel: 'template.delete' },
  params: { templateId: TemplateId },
  response: NoData,
  errors: ['TEMPLATE_NOT_FOUND', 'TEMPLATE_IN_USE'],
  audit: { action: 'template.delete' },
})

export const importEgg = defineEndpoint({
  id: 'templates.import_egg',
  tag: 'Templates',
  summary: 'Import an egg of Pterodactyl or Pelican as a template',
  method: 'POST',
  path: '/api/templates/import-pterodactyl',
  access: { panel: 'template.create' },
  body: z.looseObject({ name: z.string().optional(), nestId: NestId.nullish() }),
  response: Template.extend({ report: EggReport }),
  status: 201,
  errors: ['TEMPLATE_NAME_TAKEN', 'NEST_NOT_FOUND'],
  audit: { action: 'template.create' },
})

export const exportTemplate = defineEndpoint({
  id: 'templates.export',
  tag: 'Templates',
  summary: 'Export a template as a file that another panel can import',
  method: 'GET',
  path: '/api/templates/:templateId/export',
  access: { panel: 'template.read' },
  params: { templateId: TemplateId },
  /** `egg`: the format that it was imported from, PTDL_v2 for one that was not. */
  query: z.object({ format: z.enum(['panel', 'egg', ...EggFormat.options]).default('panel') }),
  response: z.record(z.string(), z.unknown()),
  errors: ['TEMPLATE_NOT_FOUND'],
})
