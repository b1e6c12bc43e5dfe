import type { z } from 'zod'
import type { NewTemplate, Template } from '../../../../shared/api/templates.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import { textMatches } from '../../../db/text-search.ts'
import { definitionJson, storedTemplate } from './definition.ts'

/** A template as answers show it, before it is written out. */
export type TemplateAnswer = z.input<typeof Template>

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
    .selectAll('template')
    .select(['nest.name as nestName', 'nest.icon as nestIcon'])
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
  return { id, ...storedTemplate(row), nest, serverCount: Number(row.serverCount), createdAt, updatedAt }
}
