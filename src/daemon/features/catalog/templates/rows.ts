import { z } from 'zod'
import { EggFormat } from '../../../../shared/api/template-eggs.ts'
import type { NewTemplate } from '../../../../shared/api/template-fields.ts'
import type { Template } from '../../../../shared/api/templates.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import { textMatches } from '../../../db/text-search.ts'
import { definitionJson, storedTemplate } from './definition.ts'

/** A template as answers show it, before it is written out. */
export type TemplateAnswer = z.input<typeof Template>

const Document = z.record(z.string(), z.unknown())

interface Stamped {
  readonly id: string
  readonly createdAt: IsoTime
  readonly updatedAt: IsoTime
}

interface TemplateQuery {
  readonly search?: string | undefined
  readonly nestId?: string | undefined
  readonly page: number
  readonly limit: number
}

/** One page of templates, newest first, with the number of all that match. */
export async function listTemplates(
  q: Queries,
  query: TemplateQuery,
): Promise<{ items: TemplateAnswer[]; total: number }> {
  const matching = (): ReturnType<typeof selectTemplates> => {
    let templates = selectTemplates(q)
    if (query.nestId !== undefined) templates = templates.where('template.nestId', '=', query.nestId)
    return query.search === undefined
      ? templates
      : templates.where(textMatches(query.search, 'template.id', ['template.name']))
  }
  const rows = await matching()
    .orderBy('template.createdAt', 'desc')
    .orderBy('template.id', 'desc')
    .limit(query.limit)
    .offset(offsetOf(query))
    .execute()
  return { items: rows.map(toTemplate), total: await totalOf(q, matching(), { query, found: rows.length }) }
}

/** The templates of a nest by name. */
export async function templatesOfNest(q: Queries, nestId: string): Promise<TemplateAnswer[]> {
  const rows = await selectTemplates(q).where('template.nestId', '=', nestId).orderBy('template.name').execute()
  return rows.map(toTemplate)
}

/** The template as answers show it. */
export async function findTemplate(q: Queries, id: string): Promise<TemplateAnswer | undefined> {
  const row = await selectTemplates(q).where('template.id', '=', id).executeTakeFirst()
  return row === undefined ? undefined : toTemplate(row)
}

/** The template as it was given: what servers are made from. */
export async function findDefinition(q: Queries, id: string): Promise<NewTemplate | undefined> {
  const row = await q.selectFrom('template').selectAll().where('id', '=', id).executeTakeFirst()
  return row === undefined ? undefined : storedTemplate(row)
}

/** A template by its id or its name, with its definition as it is stored. */
export async function findStored(
  q: Queries,
  by: { readonly id: string } | { readonly name: string },
): Promise<{ id: string; template: NewTemplate; definition: string } | undefined> {
  const templates = q.selectFrom('template').selectAll()
  const row = await ('id' in by
    ? templates.where('id', '=', by.id)
    : templates.where('name', '=', by.name)
  ).executeTakeFirst()
  return row === undefined ? undefined : { id: row.id, template: storedTemplate(row), definition: row.definition }
}

/** Fails with the database's UNIQUE violation for a taken name, FOREIGN KEY violation for an unknown nest. */
export async function insertTemplate(q: Queries, template: NewTemplate, stamped: Stamped): Promise<void> {
  await q.insertInto('template').values(templateRow(template, stamped)).execute()
}

/** Adds the template unless one of its name is there; answers whether it did. */
export async function insertTemplateIfNew(q: Queries, template: NewTemplate, stamped: Stamped): Promise<boolean> {
  const inserted = await q
    .insertInto('template')
    .values(templateRow(template, stamped))
    .onConflict((conflict) => conflict.doNothing())
    .returning('id')
    .executeTakeFirst()
  return inserted !== undefined
}

/** Fails as {@link insertTemplate} does. */
export async function updateTemplate(
  q: Queries,
  id: string,
  { template, updatedAt }: { template: NewTemplate; updatedAt: IsoTime },
): Promise<void> {
  await q
    .updateTable('template')
    .set({ name: template.name, nestId: template.nestId, definition: definitionJson(template), updatedAt })
    .where('id', '=', id)
    .execute()
}

/** A server that follows the template and has chosen a startup line that is none of these. */
export async function serversByLostLine(q: Queries, templateId: string, kept: readonly string[]) {
  const servers = q.selectFrom('server').select(['name', 'startupName']).where('templateId', '=', templateId)
  const choosing = servers.where('startupName', 'is not', null).where('pinnedTemplate', 'is', null)
  const lost = kept.length === 0 ? choosing : choosing.where('startupName', 'not in', [...kept])
  return lost.orderBy('name').limit(1).execute()
}

/** What is kept of the egg that a template was imported from. */
export interface KeptEgg {
  readonly format: EggFormat
  readonly uuid: string | null
  readonly updateUrl: string | null
  readonly document: Readonly<Record<string, unknown>>
}

/** Keeps the egg of a template in the place of an earlier one; `null`: it has none any more. */
export async function keepEgg(q: Queries, templateId: string, egg: KeptEgg | null): Promise<void> {
  await q.deleteFrom('templateEgg').where('templateId', '=', templateId).execute()
  if (egg === null) return
  const row = { ...egg, templateId, document: JSON.stringify(egg.document) }
  await q.insertInto('templateEgg').values(row).execute()
}

/** The egg that the template was imported from. */
export async function findEgg(q: Queries, templateId: string): Promise<Record<string, unknown> | undefined> {
  const row = await q
    .selectFrom('templateEgg')
    .select('document')
    .where('templateId', '=', templateId)
    .executeTakeFirst()
  return row === undefined ? undefined : parseJson(Document, row.document)
}

/** Deletes it and answers its name; fails with the database's FOREIGN KEY violation while a server uses it. */
export async function deleteTemplate(q: Queries, id: string): Promise<{ name: string } | undefined> {
  return q.deleteFrom('template').where('id', '=', id).returning('name').executeTakeFirst()
}

function templateRow(template: NewTemplate, stamped: Stamped) {
  return { ...stamped, name: template.name, nestId: template.nestId, definition: definitionJson(template) }
}

function selectTemplates(q: Queries) {
  return q
    .selectFrom('template')
    .leftJoin('nest', 'nest.id', 'template.nestId')
    .leftJoin('templateEgg', 'templateEgg.templateId', 'template.id')
    .selectAll('template')
    .select(['nest.name as nestName', 'nest.icon as nestIcon'])
    .select(['templateEgg.format as eggFormat', 'templateEgg.uuid as eggUuid', 'templateEgg.updateUrl as eggUpdateUrl'])
    .select((eb) =>
      eb
        .selectFrom('server')
        .whereRef('server.templateId', '=', 'template.id')
        .select((inner) => inner.fn.countAll<number>().as('count'))
        .as('serverCount'),
    )
}

function toTemplate(
  row: Awaited<ReturnType<ReturnType<typeof selectTemplates>['executeTakeFirstOrThrow']>>,
): TemplateAnswer {
  const nest =
    row.nestId === null || row.nestName === null ? null : { id: row.nestId, name: row.nestName, icon: row.nestIcon }
  const { id, createdAt, updatedAt } = row
  const format = EggFormat.safeParse(row.eggFormat)
  const origin = format.success ? { format: format.data, uuid: row.eggUuid, updateUrl: row.eggUpdateUrl } : null
  return { id, ...storedTemplate(row), nest, origin, serverCount: Number(row.serverCount), createdAt, updatedAt }
}
