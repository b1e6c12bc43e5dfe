import { z } from 'zod'
import { NewServer } from '../../../../../shared/api/servers.ts'
import { recordFact, userIdOf } from '../../../../access/operation.ts'
import { insertServer } from '../../../servers/servers/create.ts'
import { updateServer } from '../../../servers/servers/operations.ts'
import { addServerAllocation } from '../../../servers/servers/port-operations.ts'
import { suspend } from '../../../servers/servers/suspend.ts'
import { definitionOf } from '../../../servers/servers/view.ts'
import { findMapped } from '../map.ts'
import { contentHash } from '../plan/content-hash.ts'
import { call } from './call.ts'
import { StepRefusal, stepAction } from './step.ts'

/** Why a server cannot be started that is not here yet; the end of its migration lifts that. */
export const MOVING_IN = 'Being moved in from another panel'

const Limits = z.object({
  memoryMb: z.number(),
  diskMb: z.number(),
  cpuCores: z.number(),
  swapMb: z.number(),
  cpuSet: z.string().nullable(),
  ioWeight: z.number().nullable(),
})

/**
 * Brings the record of a server: owner, limits, variables, all of its ports. It is suspended until its files are here, so that nobody starts
 * half of it.
 */
export const importServer = stepAction({
  input: z.object({
    source: z.looseObject({
      id: z.string(),
      uuid: z.string(),
      name: z.string(),
      description: z.string(),
      ownerId: z.string(),
      eggId: z.string(),
      startup: z.string(),
      image: z.string(),
      environment: z.record(z.string(), z.string()),
      featureLimits: z.object({ databases: z.number().nullable() }).loose(),
    }),
    nodeId: z.string(),
    limits: Limits,
    notes: z.array(z.string()),
    ports: z
      .array(
        z.object({
          ip: z.string(),
          port: z.int(),
          isPrimary: z.boolean(),
          notes: z.string().nullable(),
          from: z.string(),
        }),
      )
      .default([]),
    isNewUuid: z.boolean().default(false),
    op: z.enum(['create', 'update']),
  }),
  run: async (context, { source, nodeId, limits, notes, ports, isNewUuid, op }) => {
    const { deps, principal, sourceFp, targetId } = context
    return async (tx) => {
      const hash = contentHash(source)
      const mapped = async (sourceType: string, sourceId: string): Promise<string> => {
        const found = await findMapped(tx.q, { sourceFp, sourceType, sourceId })
        if (found === undefined)
          throw new StepRefusal('CONFLICT', `The ${sourceType} ${sourceId} of the source has not been imported`)
        return found.targetId
      }
      const templateId = await mapped('egg', source.eggId)
      const template = await tx.q
        .selectFrom('template')
        .select('definition as templateDefinition')
        .where('id', '=', templateId)
        .executeTakeFirst()
      if (template === undefined) throw new StepRefusal('TEMPLATE_NOT_FOUND', 'Its template has been deleted here')
      const known = new Set(definitionOf(template).variables.map(({ name }) => name))
      const environment = Object.fromEntries(Object.entries(source.environment).filter(([name]) => known.has(name)))
      const unknown = Object.keys(source.environment).filter((name) => !known.has(name))
      const said =
        unknown.length === 0 ? notes : [...notes, `variables that its template does not have: ${unknown.join(', ')}`]
      const sizes = {
        allocatedMemoryMb: limits.memoryMb,
        allocatedCpuCores: limits.cpuCores,
        allocatedDiskMb: limits.diskMb,
        allocatedSwapMb: limits.swapMb,
        cpuSet: limits.cpuSet,
        ioWeight: limits.ioWeight,
      }
      const description = source.description.slice(0, 500) || null
      const done = (id: string, more: Readonly<Record<string, unknown>> = {}) =>
        ({
          kind: 'done',
          target: { type: 'server', id, created: true, contentHash: hash },
          notes: { warnings: said, ...more },
        }) as const
      if (op === 'update' && targetId !== null) {
        const body = { name: source.name, description, environment, ...sizes }
        await call(tx, updateServer, { deps, principal, params: { serverId: targetId }, body })
        return done(targetId)
      }
      const [primary, ...further] = ports
      if (primary === undefined) throw new StepRefusal('VALIDATION_ERROR', 'It has no address')
      const node = await tx.q.selectFrom('node').select('locationId').where('id', '=', nodeId).executeTakeFirst()
      if (node === undefined)
        throw new StepRefusal('NODE_NOT_FOUND', 'The node that it was to come to has been deleted')
      const read = NewServer.safeParse({
        ...{ name: source.name, description, templateId, nodeId, locationId: node.locationId, environment, ...sizes },
        ownerId: source.ownerId === '' ? (userIdOf(principal) ?? undefined) : await mapped('user', source.ownerId),
        primaryIp: primary.ip,
        primaryPort: primary.port,
        databaseAllocation: source.featureLimits.databases ?? undefined,
        image: source.image === '' ? undefined : source.image,
        start: false,
      })
      if (!read.success) {
        const [issue] = read.error.issues
        throw new StepRefusal('VALIDATION_ERROR', `${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`.trim())
      }
      const holder = { userId: '', permissions: new Set(['*']), scope: null }
      const record = (fact: Parameters<typeof recordFact>[2]): Promise<void> =>
        recordFact(tx, { deps, principal }, fact)
      const work = { tx, deps, caller: undefined, userId: null, holder, record: (): Promise<void> => Promise.resolve() }
      const made = await insertServer(work, read.data, { uuid: isNewUuid ? undefined : source.uuid })
      const { audit, events = [] } = made.done
      await record({ audit: audit && { ...audit, action: 'server.create', resource: 'server' }, events })
      for (const { ip, port } of further) {
        await call(tx, addServerAllocation, {
          deps,
          principal,
          params: { serverId: made.id },
          body: { containerPort: port, ip },
        })
      }
      const held = await suspend(work, { serverId: made.id, reason: MOVING_IN, stopServer: false })
      await record({
        audit: held.done.audit && { ...held.done.audit, action: 'server.suspend', resource: 'server' },
        events: held.done.events ?? [],
      })
      const changes = ports.filter(({ ip, port, from }) => !from.endsWith(`:${port}`) || !from.includes(ip))
      return done(made.id, { portChanges: changes.map(({ ip, port, from }) => ({ from, to: `${ip}:${port}` })) })
    }
  },
})
