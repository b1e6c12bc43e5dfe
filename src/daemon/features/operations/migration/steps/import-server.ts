import { z } from 'zod'
import { NewServer } from '../../../../../shared/api/servers.ts'
import { StartupLineProblem, startupLineProblem } from '../../../../../shared/kernel/startup-line.ts'
import { variableHere } from '../../../../../shared/templates/egg-import.ts'
import { eggStartup } from '../../../../../shared/templates/egg-startup.ts'
import { checkEnvironment } from '../../../../../shared/templates/variable-rules.ts'
import { recordFact, userIdOf } from '../../../../access/operation.ts'
import type { Tx } from '../../../../db/db.ts'
import { insertServer } from '../../../servers/servers/create.ts'
import { updateServer } from '../../../servers/servers/operations.ts'
import { addServerAllocation } from '../../../servers/servers/port-operations.ts'
import { suspend } from '../../../servers/servers/suspend.ts'
import { definitionOf } from '../../../servers/servers/view.ts'
import { findMapped } from '../map.ts'
import { contentHash } from '../plan/content-hash.ts'
import { fittingName } from '../plan/fitting-name.ts'
import { call } from './call.ts'
import { StepRefusal, stepAction } from './step.ts'

/** Why a server cannot be started that is not here yet; the end of its migration lifts that. */
export const MOVING_IN = 'Being moved in from another panel'

/** What a server may have that may have any number on the source. */
const MOST_DATABASES = 1000
const NAME_LENGTH = 100

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
    /** It comes although its node has no room for it by what its servers have been given. */
    isBeyondNode: z.boolean().default(false),
    op: z.enum(['create', 'update']),
  }),
  run: async (context, { source, nodeId, limits, notes, ports, isNewUuid, isBeyondNode, op }) => {
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
      const definition = definitionOf(template)
      const known = new Set(definition.variables.map(({ name }) => name))
      const renamed = namesHere(source.environment, known)
      const named = Object.entries(source.environment).map(
        ([name, value]) => [renamed.get(name) ?? name, value] as const,
      )
      const environment = Object.fromEntries(named.filter(([name]) => known.has(name)))
      const unknown = named.flatMap(([name]) => (known.has(name) ? [] : [name]))
      const said = [...notes]
      if (unknown.length > 0) said.push(`variables that its template does not have: ${unknown.join(', ')}`)
      const { problems } = checkEnvironment(definition.variables, environment, {})
      for (const { field, message } of problems) {
        said.push(
          `the variable ${field.replace('body.environment.', '')} ${message}; it stays until somebody changes it`,
        )
      }
      const images = [definition.image, ...definition.images.map((one) => one.image)]
      const hasImage = source.image === '' || images.includes(source.image)
      const image = hasImage && source.image !== '' ? source.image : null
      const line = source.startup === '' ? {} : lineHere(source.startup, { definition, renamed, said })
      if (line === undefined) said.push('its own startup line cannot be used here; it has that of its template')
      if (!hasImage) said.push(`its image ${source.image} is none of its template; it runs in that of its template`)
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
        const nameFor = async (): Promise<string> => {
          const row = await tx.q.selectFrom('server').select('ownerId').where('id', '=', targetId).executeTakeFirst()
          return freeName(tx, { ownerId: row?.ownerId ?? '', name: fittingName(source.name), exceptId: targetId })
        }
        const body = {
          ...{ name: await nameFor(), description, environment, ...sizes },
          ...(source.image === '' ? {} : { image }),
          ...(source.startup === '' ? {} : { startupCommand: null, startupName: null, ...line }),
        }
        await whileInUse(tx, targetId, () =>
          call(tx, updateServer, { deps, principal, params: { serverId: targetId }, body }),
        )
        return done(targetId)
      }
      const [primary, ...further] = ports
      if (primary === undefined) throw new StepRefusal('VALIDATION_ERROR', 'It has no address')
      const node = await tx.q.selectFrom('node').select('locationId').where('id', '=', nodeId).executeTakeFirst()
      if (node === undefined)
        throw new StepRefusal('NODE_NOT_FOUND', 'The node that it was to come to has been deleted')
      const ownerId = source.ownerId === '' ? userIdOf(principal) : await mapped('user', source.ownerId)
      const name = await freeName(tx, { ownerId: ownerId ?? '', name: fittingName(source.name) })
      if (name !== source.name) said.push(`it is called ${name} here; its name on the source is ${source.name}`)
      const asked = {
        ...{ name, description, templateId, nodeId, locationId: node.locationId, environment, ...sizes },
        ownerId: ownerId ?? undefined,
        primaryIp: primary.ip,
        primaryPort: primary.port,
        databaseAllocation: source.featureLimits.databases ?? MOST_DATABASES,
        image,
        ...line,
        start: false,
      }
      const read = NewServer.safeParse(asked)
      if (!read.success) {
        const [issue] = read.error.issues
        throw new StepRefusal('VALIDATION_ERROR', `${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`.trim())
      }
      const holder = { userId: '', permissions: new Set(['*']), scope: null }
      const record = (fact: Parameters<typeof recordFact>[2]): Promise<void> =>
        recordFact(tx, { deps, principal }, fact)
      const work = { tx, deps, caller: undefined, userId: null, holder, record: (): Promise<void> => Promise.resolve() }
      const made = await insertServer(work, read.data, { uuid: isNewUuid ? undefined : source.uuid, isBeyondNode })
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

type Definition = ReturnType<typeof definitionOf>

/** Nobody edits a suspended server; one whose files have not come yet, or that rests on the source too, gets what is new of its record. */
async function whileInUse(tx: Tx, serverId: string, work: () => Promise<unknown>): Promise<void> {
  const servers = tx.q.updateTable('server').where('id', '=', serverId)
  const row = await tx.q.selectFrom('server').select('suspendedAt').where('id', '=', serverId).executeTakeFirst()
  if (row?.suspendedAt != null) await servers.set({ suspendedAt: null }).execute()
  await work()
  if (row?.suspendedAt != null) await servers.set({ suspendedAt: row.suspendedAt }).execute()
}

/** Variables of a server that its template has by another name. */
function namesHere(
  environment: Readonly<Record<string, string>>,
  known: ReadonlySet<string>,
): ReadonlyMap<string, string> {
  const pairs = Object.keys(environment).map((name) => [name, variableHere(name)] as const)
  return new Map(pairs.filter(([name, here]) => here !== name && known.has(here) && !Object.hasOwn(environment, here)))
}

/**
 * What a server is created with for its line on the source, which is written as those of eggs are: nothing where that is the line of its
 * template, the name of another one of the template, else a line of its own. `undefined`: it cannot be followed.
 */
function lineHere(
  text: string,
  {
    definition,
    renamed,
    said,
  }: {
    readonly definition: Definition
    readonly renamed: ReadonlyMap<string, string>
    readonly said: string[]
  },
): { readonly startupName?: string; readonly startupCommand?: string } | undefined {
  if (text === definition.startup) return {}
  try {
    const { command, shell } = eggStartup(text, renamed)
    if (command === definition.startup) return {}
    const listed = definition.startupCommands.find((one) => one.command === command)
    if (listed !== undefined) return { startupName: listed.name }
    const isUsable = NewServer.shape.startupCommand.safeParse(command).success
    if (!isUsable || startupLineProblem(command) !== undefined) return undefined
    if (shell === 'bash' && definition.shell !== 'bash')
      said.push('its own startup line is written for bash, and its template runs lines by sh')
    return { startupCommand: command }
  } catch (error) {
    if (error instanceof StartupLineProblem) return undefined
    throw error
  }
}

/** Whose servers all have names of their own here; on the source they need not. */
async function freeName(
  tx: Tx,
  { ownerId, name, exceptId = '' }: { readonly ownerId: string; readonly name: string; readonly exceptId?: string },
): Promise<string> {
  const whole = name.trim()
  for (let number = 1; ; number++) {
    const suffix = number === 1 ? '' : `-${number}`
    const wanted = `${whole.slice(0, NAME_LENGTH - suffix.length)}${suffix}`
    const taken = await tx.q
      .selectFrom('server')
      .select('id')
      .where('ownerId', '=', ownerId)
      .where('id', '!=', exceptId)
      .where((on) => on(on.fn<string>('lower', ['name']), '=', wanted.toLowerCase()))
      .executeTakeFirst()
    if (taken === undefined) return wanted
  }
}
