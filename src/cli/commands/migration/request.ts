import { z } from 'zod'
import * as api from '../../../shared/api/migration.ts'
import { MigrationPhase } from '../../../shared/kernel/migration.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { parsePair, readObject } from '../../kit/read-file.ts'
import { mibOf } from '../../kit/resource/fields.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import { type SourceAccess, SourceLook, wantedKind } from './source.ts'
import { refuseUnusable } from './test.ts'

/** What a migration is asked to bring, and how. Fields that are not given are the panel's to choose. */
export const MigrationRequest = z.object({
  scope: api.MigrationScope.optional(),
  nodeMappings: z.record(z.string(), z.string()),
  serverMappings: z.record(z.string(), z.string()),
  phases: z.array(MigrationPhase),
  options: z.record(z.string(), z.unknown()),
})
export type MigrationRequest = z.infer<typeof MigrationRequest>

/** What --map-file holds: words as --map and --server take them, and options by the names of the API. */
const MapFile = z.strictObject({
  scope: api.MigrationScope.optional(),
  nodes: z.record(z.string(), z.string()).default({}),
  servers: z.record(z.string(), z.string()).default({}),
  phases: z.array(MigrationPhase).default([]),
  options: z.record(z.string(), z.unknown()).default({}),
})

/** The request that the flags and --map-file make; names of nodes and servers become ids. */
export async function readRequest(run: Run, source: SourceAccess): Promise<MigrationRequest> {
  const file = await readMapFile(run)
  const look = new SourceLook(run, source)
  const wanted = wantedKind(run)
  if (wanted !== undefined && wanted !== 'directory') refuseUnusable(await look.get(), wanted)
  const directory = 'source' in source ? source.source : undefined
  const { args } = run
  const nodes = [...Object.entries(file.nodes), ...args.list('map').map((text) => parsePair(text, '--map'))]
  const servers = [
    ...Object.entries(file.servers),
    ...args.list('server').map((text) => serverPair(text, directory?.nodeId)),
  ]
  const targets = new Targets(run)
  const nodeMappings = await mapped(nodes, {
    run,
    targets,
    isId: isNumber,
    named: async (word) => nodeOf(await look.get(), word),
  })
  const serverMappings = await mapped(servers, {
    run,
    targets,
    // Servers of a directory are named by their folders.
    isId: directory === undefined ? isNumber : () => true,
    named: async (word) => serverOf(await look.get(), word),
  })
  const onlyServers = Object.keys(serverMappings).length > 0 && Object.keys(nodeMappings).length === 0
  const scope = scopeOf(args.text('scope')) ?? file.scope ?? (onlyServers ? 'server' : undefined)
  const phases = args.list('phase').length === 0 ? file.phases : z.array(MigrationPhase).parse(args.list('phase'))
  return {
    ...(scope === undefined ? {} : { scope }),
    nodeMappings,
    serverMappings,
    phases,
    options: merged(file.options, await optionsOf(run)),
  }
}

async function readMapFile(run: Run): Promise<z.infer<typeof MapFile>> {
  const path = run.args.text('map-file')
  const parsed = MapFile.safeParse(path === undefined ? {} : await readObject(path, run.terminal.stdin))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new CliFailure('FILE_UNREADABLE', `${path} is no map file: ${issue?.path.join('.')}: ${issue?.message}`, {
    hint: 'it may have scope, nodes, servers, phases and options',
  })
}

function scopeOf(text: string | undefined): api.MigrationScope | undefined {
  return api.MigrationScope.options.find((scope) => scope === text)
}

/** A folder alone stands for itself on the node that it lies on. */
function serverPair(text: string, nodeId: string | undefined): [string, string] {
  return nodeId !== undefined && !text.includes('=') ? [text, nodeId] : parsePair(text, '--server')
}

const isNumber = (word: string): boolean => /^\d+$/.test(word)

interface Mapping {
  readonly run: Run
  readonly targets: Targets
  /** Whether a word is an id of the source as it is. */
  readonly isId: (word: string) => boolean
  readonly named: (word: string) => Promise<string>
}

async function mapped(
  pairs: readonly (readonly [string, string])[],
  { targets, isId, named }: Mapping,
): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const [from, to] of pairs) {
    const id = isId(from) ? from : await named(from)
    const target = await targets.idOf(to)
    if (Object.hasOwn(found, id) && found[id] !== target) throw usage(`'${from}' is to go to two nodes`)
    found[id] = target
  }
  return found
}

/** Nodes of this panel by words, each looked up once. */
class Targets {
  readonly #run: Run
  readonly #ids = new Map<string, string>()

  constructor(run: Run) {
    this.#run = run
  }

  async idOf(word: string): Promise<string> {
    const known = this.#ids.get(word) ?? (await resolve(this.#run, 'node', word)).id
    this.#ids.set(word, known)
    return known
  }
}

function nodeOf(found: api.SourceTest, word: string): string {
  refuseUnusable(found, undefined)
  return only(
    'node',
    word,
    found.nodes.filter(({ name, fqdn }) => name === word || fqdn === word),
  )
}

function serverOf(found: api.SourceTest, word: string): string {
  refuseUnusable(found, undefined)
  const isUuid = (uuid: string): boolean => uuid === word || (word.length === 8 && uuid.startsWith(word))
  return only(
    'server',
    word,
    found.servers.filter(({ name, uuid }) => name === word || isUuid(uuid)),
  )
}

function only(noun: string, word: string, found: readonly { readonly id: string; readonly name: string }[]): string {
  const [one] = found
  if (one !== undefined && found.length === 1) return one.id
  if (one === undefined)
    throw new CliFailure('NOT_FOUND', `the source has no ${noun} '${word}'`, {
      hint: 'panel migration test lists what it has',
    })
  throw new CliFailure('AMBIGUOUS_NAME', `'${word}' means ${found.length} ${noun}s of the source: use the id`, {
    details: found.slice(0, 20).map(({ id, name }) => ({ field: id, message: name })),
  })
}

/** Options by their flags; only those that are given. */
async function optionsOf(run: Run): Promise<Record<string, unknown>> {
  const { args } = run
  const location = args.text('location')
  const timeout = args.duration('backup-timeout')
  const conflicts = args.list('on-conflict').map((text) => parsePair(text, '--on-conflict'))
  for (const [what] of conflicts) {
    if (!Object.hasOwn(api.ConflictPolicies.shape, what))
      throw usage(`--on-conflict knows no '${what}'`, `one of ${Object.keys(api.ConflictPolicies.shape).join(', ')}`)
  }
  const limits = args.list('unlimited').map(unlimited)
  const given: Record<string, unknown> = {
    conflicts: conflicts.length === 0 ? undefined : Object.fromEntries(conflicts),
    portRange: portRange(args.text('port-range')),
    unlimited: limits.length === 0 ? undefined : Object.fromEntries(limits),
    transport: args.text('transport'),
    archiveOrigins: someOf(args.list('archive-origin')),
    databaseHosts: someOf(args.list('database-host')),
    backupTimeoutSeconds: timeout === undefined ? undefined : Math.round(timeout / 1000),
    bytesPerSecond: rateOf(args.text('bwlimit')),
    freeze: args.text('freeze'),
    verify: args.text('verify'),
    runtimes: someOf([...new Set(args.list('runtime'))]),
    mounts: args.text('mounts'),
    backups: args.text('backups'),
    invite: args.flag('invite') || undefined,
    grantAdmin: args.flag('grant-admin') || undefined,
    locationId: location === undefined ? undefined : (await resolve(run, 'location', location)).id,
    concurrency: args.integer('concurrency', 1),
    maxFailures: args.integer('max-failures'),
  }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

function someOf(list: readonly string[]): readonly string[] | undefined {
  return list.length === 0 ? undefined : list
}

/** Bytes in a second: a number of them, or with a unit of 1024. */
function rateOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const match = /^(\d{1,12}(?:\.\d{1,3})?)([kmg])?(?:i?b)?(?:\/s)?$/i.exec(text)
  if (match === null) throw usage(`--bwlimit must be bytes in a second such as 10M, not '${text}'`)
  const unit = { k: 1024, m: 1024 ** 2, g: 1024 ** 3 }[(match[2] ?? '').toLowerCase()] ?? 1
  return Math.round(Number(match[1]) * unit)
}

function portRange(text: string | undefined): { from: number; to: number } | undefined {
  if (text === undefined) return undefined
  const match = /^(\d{1,5})-(\d{1,5})$/.exec(text)
  if (match === null) throw usage(`--port-range must be two ports such as 20000-29999, not '${text}'`)
  return { from: Number(match[1]), to: Number(match[2]) }
}

function unlimited(text: string): [string, number] {
  const [what, value] = parsePair(text, '--unlimited')
  if (what === 'memory' || what === 'disk') return [`${what}Mb`, mibOf(value, 'unlimited')]
  if (what !== 'cpu') throw usage(`--unlimited knows no '${what}'`, 'one of memory, disk, cpu')
  if (!/^\d{1,5}(\.\d{1,3})?$/.test(value)) throw usage(`--unlimited cpu must be a number of cores, not '${value}'`)
  return ['cpuCores', Number(value)]
}

/** Flags over the file; groups such as conflicts by their entries. */
function merged(file: Record<string, unknown>, flags: Record<string, unknown>): Record<string, unknown> {
  const isGroup = (value: unknown): value is object =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
  const both = { ...file, ...flags }
  for (const [name, value] of Object.entries(flags)) {
    const before = file[name]
    if (isGroup(before) && isGroup(value)) both[name] = { ...before, ...value }
  }
  return both
}
