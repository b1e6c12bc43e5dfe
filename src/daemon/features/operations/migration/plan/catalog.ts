import type { MigrationPhase } from '../../../../../shared/kernel/migration.ts'
import { contentHash } from './content-hash.ts'
import type { Op } from './draft.ts'
import type { Planning, ServerInScope } from './scope.ts'
import type { SourceSnapshot } from './state.ts'

/** Locations: those of the nodes whose servers come along, or all. */
export function planLocations(planning: Planning, servers: readonly ServerInScope[]): void {
  const { source, target, request, phases } = planning
  if (!phases.has('locations')) return
  const isFull = request.scope === 'full'
  const wanted = new Set(servers.map(({ server }) => server.nodeId))
  const needed = new Set(source.nodes.flatMap(({ id, locationId }) => (wanted.has(id) ? [locationId] : [])))
  for (const location of source.locations) {
    if (!isFull && !needed.has(location.id)) continue
    const { id, name } = location
    planNamed(planning, 'locations', 'import_location', {
      type: 'location',
      id,
      name,
      source: location,
      held: target.locations,
    })
  }
}

/** Nests and eggs: those that the servers need, or all. */
export function planTemplates(planning: Planning, servers: readonly ServerInScope[]): void {
  const { source, target, request, phases } = planning
  if (!phases.has('templates')) return
  const isFull = request.scope === 'full'
  const wanted = new Set(servers.map(({ server }) => server.eggId))
  const eggs = source.eggs.filter(({ id }) => isFull || wanted.has(id))
  const nests = new Set(eggs.map(({ nestId }) => nestId))
  for (const nest of source.nests) {
    if (!isFull && !nests.has(nest.id)) continue
    const { id, name } = nest
    planNamed(planning, 'templates', 'import_nest', { type: 'nest', id, name, source: nest, held: target.nests })
  }
  for (const egg of eggs) planTemplate(planning, egg)
}

/** A nest or location: whoever has its name stands for it. */
function planNamed(
  { request, draft }: Planning,
  phase: MigrationPhase,
  action: string,
  {
    type,
    id,
    name,
    source,
    held,
  }: {
    type: 'location' | 'nest'
    id: string
    name: string
    source: object
    held: ReadonlyMap<string, string>
  },
): string {
  const add = (op: Op, targetId: string | null, as: string, reason?: string) =>
    draft.add({
      phase,
      action,
      type,
      id,
      name,
      target: { type, id: targetId, name: as },
      op,
      reason,
      input: { source, name: as, op },
    })
  const again = draft.again(type, id, source)
  if (again !== undefined) return add(again.op, again.targetId, name, again.reason)
  const there = held.get(name)
  if (there === undefined) return add('create', null, draft.freeName(type, name, held))
  const policy = request.options.conflicts.location
  if (policy === 'link') return add('link', there, name, 'exists')
  if (policy === 'suffix') return add('create', null, draft.freeName(type, name, held))
  draft.conflict('NAME_TAKEN', { type, id, name }, `There is a ${type} named ${name} already`, {
    target: { type, id: there, name },
    policy: 'conflicts.location',
    policyOptions: ['link', 'suffix'],
  })
  return add('conflict', there, name)
}

function planTemplate({ target, request, draft }: Planning, egg: SourceSnapshot['eggs'][number]): string {
  const { id, name, nestId } = egg
  const hash = contentHash(egg.document)
  const there = target.templates.get(name)
  const policy = request.options.conflicts.template
  const needs = [draft.bringing(`nest ${nestId}`)]
  const add = (op: Op, targetId: string | null, as: string, reason?: string) =>
    draft.add({
      phase: 'templates',
      action: 'import_template',
      type: 'egg',
      id,
      name,
      target: { type: 'template', id: targetId, name: as },
      op,
      reason,
      needs,
      input: { source: egg, name: as, op },
    })
  if (egg.mustExist) {
    const known = there?.id ?? [...target.templates.values()].find((one) => one.id === id)?.id
    return known === undefined ? add('skip', null, name, 'template_missing') : add('link', known, name, 'exists')
  }
  const again = draft.again('egg', id, egg)
  if (again !== undefined) {
    if (again.op !== 'update' || policy === 'overwrite') return add(again.op, again.targetId, name, again.reason)
    // Servers that were brought before keep the template that they have.
    if (policy === 'link') return add('link', again.targetId, name, 'exists')
    if (policy === 'suffix') return add('create', null, draft.freeName('template', name, target.templates))
  } else if (there === undefined || there.origin === hash) {
    return there === undefined
      ? add('create', null, draft.freeName('template', name, target.templates))
      : add('link', there.id, name, 'exists')
  } else if (policy === 'link') return add('link', there.id, name, 'exists')
  else if (policy === 'overwrite') return add('update', there.id, name)
  else if (policy === 'suffix') return add('create', null, draft.freeName('template', name, target.templates))
  draft.conflict('TEMPLATE_DIFFERS', { type: 'egg', id, name }, `There is another template named ${name} already`, {
    target: { type: 'template', id: there?.id ?? null, name },
    policy: 'conflicts.template',
    policyOptions: ['suffix', 'overwrite', 'link'],
  })
  return add('conflict', there?.id ?? null, name)
}
