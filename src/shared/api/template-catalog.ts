import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { TemplateId } from '../kernel/ids.ts'
import { RuntimeName } from '../protocol/server-spec.ts'
import { Template } from './templates.ts'

/** A template that comes with the program, and what this installation has of it. */
export const CatalogTemplate = z.object({
  /** What it is installed by. */
  name: z.string(),
  /** The name of the template that it becomes. */
  title: z.string(),
  summary: z.string().nullable(),
  version: z.string(),
  runtimes: z.array(RuntimeName),
  /** Packages of Debian that its servers need on their node, and what else they need. */
  debianPackages: z.array(z.string()),
  requires: z.string().nullable(),
  /** `edited`: it was edited since, or was made by somebody under that name; `null`: there is none. */
  installed: z
    .object({ templateId: TemplateId, name: z.string(), version: z.string(), edited: z.boolean() })
    .nullable(),
  updateAvailable: z.boolean(),
})
export type CatalogTemplate = z.input<typeof CatalogTemplate>

export const listCatalog = defineEndpoint({
  id: 'templates.catalog',
  tag: 'Templates',
  summary: 'List the templates that come with the panel',
  method: 'GET',
  path: '/api/templates/catalog',
  access: { panel: 'template.read' },
  response: z.array(CatalogTemplate),
})

export const installTemplate = defineEndpoint({
  id: 'templates.install',
  tag: 'Templates',
  summary: 'Add a template of the catalogue, or bring it up to date; its servers take it over at their next start',
  method: 'POST',
  path: '/api/templates/catalog/:catalogName/install',
  access: { panel: 'template.create' },
  params: { catalogName: z.string().regex(/^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$/, 'must be a name of the catalogue') },
  /** `force`: overwrite what people have edited, but for its name and nest. */
  body: z.object({ force: z.boolean().default(false) }).prefault({}),
  response: Template.extend({ outcome: z.enum(['created', 'updated', 'unchanged']) }),
  errors: ['TEMPLATE_NOT_FOUND', 'TEMPLATE_EDITED', 'PERMISSION_DENIED'],
  audit: { action: 'template.install' },
})
