import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { PluginName } from '../../../shared/api/plugins.ts'
import { type EventType, isEventType } from '../../../shared/kernel/events.ts'
import { PERMISSIONS, type Permission } from '../../../shared/kernel/permissions.ts'
import { mustBe } from '../../../shared/kernel/refusal-words.ts'
import { isCronLine } from '../../core/cron.ts'
import { type ConfigSchema, compileConfigSchema, SchemaProblem } from './config-schema.ts'
import { inRange, isRange } from './engine-range.ts'
import { LoadProblem } from './failures.ts'

/** The name of the file that makes a folder a plugin. */
export const MANIFEST = 'plugin.json'

const MOST_BYTES = 64 * 1024
/** Words that the panel's own routes have behind the name of a plugin. */
const OWN_WORDS = ['enable', 'reload', 'config', 'frontend-manifest']

const Handler = z.string().regex(/^[A-Za-z_$][\w$]{0,63}$/, 'must be the name of a handler: letters, digits, _ and $')
const Line = z
  .string()
  .max(500)
  .regex(/^[^\p{Cc}]*$/u, 'must be one line')
const Asked = z.enum(PERMISSIONS).exclude(['*'])

/** A path below `/api/plugins/<name>`: words and `:names`. */
const RoutePath = z
  .string()
  .max(200)
  .regex(/^(\/(:[a-z][A-Za-z0-9]{0,31}|[a-z0-9][a-z0-9._-]{0,63}))+$/, 'must be a path such as /greetings/:id')
  .refine((path) => !OWN_WORDS.includes(path.split('/')[1] ?? ''), `must not begin with ${OWN_WORDS.join(', ')}`)

const RouteEntry = z.strictObject({
  method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']),
  path: RoutePath,
  /** What a caller needs; `session`: to be signed in. */
  permission: z.union([z.literal('session'), z.enum(PERMISSIONS)]),
  handler: Handler,
})

const Manifest = z
  .strictObject({
    name: PluginName,
    version: z.string().regex(/^\d+\.\d+\.\d+([-+][\w.+-]{1,50})?$/, 'must be a version such as 1.0.0'),
    displayName: Line.optional(),
    description: Line.default(''),
    author: Line.default(''),
    engine: z.string().max(100).refine(isRange, 'must be a range of versions such as >=0.1.0 <1.0.0'),
    main: z
      .string()
      .max(200)
      .regex(
        /^[A-Za-z0-9_-][\w.-]*(\/[A-Za-z0-9_-][\w.-]*)*\.(js|mjs|cjs)$/,
        'must be a .js, .mjs or .cjs file of the folder',
      )
      .default('index.js'),
    permissions: z.array(Asked).max(PERMISSIONS.length).default([]),
    routes: z.array(RouteEntry).max(100).default([]),
    events: z
      .array(
        z.strictObject({
          type: z.custom<EventType>((text) => typeof text === 'string' && isEventType(text), 'must be an event type'),
          handler: Handler,
        }),
      )
      .max(100)
      .default([]),
    tasks: z
      .array(
        z.strictObject({
          name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/),
          cron: z
            .string()
            .max(100)
            .refine((text) => isCronLine(text, [5, 6]), 'must be a cron pattern such as 0 4 * * *'),
          handler: Handler,
        }),
      )
      .max(50)
      .default([]),
    configSchema: z.record(z.string(), z.json()).default({ type: 'object', additionalProperties: false }),
    memoryMb: z.int().min(32).max(1024).default(128),
    frontend: z
      .strictObject({
        entry: z
          .string()
          .max(500)
          .regex(/^(https:\/\/|\/)\S+$/),
      })
      .optional(),
  })
  .refine(({ routes }) => isUnique(routes.map(({ method, path }) => `${method} ${path.replace(/:\w+/g, ':')}`)), {
    path: ['routes'],
    message: 'must not have the same method and path twice',
  })
  .refine(({ tasks }) => isUnique(tasks.map(({ name }) => name)), {
    path: ['tasks'],
    message: 'must have names of their own',
  })

/** What `plugin.json` says, checked. */
export type Manifest = z.output<typeof Manifest>
export type RouteEntry = z.output<typeof RouteEntry>

/** A manifest with its compiled schema. */
export interface Definition extends Manifest {
  readonly displayName: string
  readonly schema: ConfigSchema
}

/** Reads the manifest in the folder of the plugin `name`. Throws a LoadProblem that says what is wrong with which field. */
export async function readDefinition(folder: string, name: string, panelVersion: string): Promise<Definition> {
  const parsed = Manifest.safeParse(parseText(await readText(join(folder, MANIFEST))), { error: mustBe })
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'it'}: ${issue.message}`)
    throw new LoadProblem(`${MANIFEST} is not valid: ${problems.slice(0, 5).join('; ')}`)
  }
  const manifest = parsed.data
  if (manifest.name !== name) {
    throw new LoadProblem(`${MANIFEST} names the plugin ${manifest.name}, but its folder is ${name}`)
  }
  if (!inRange(panelVersion, manifest.engine)) {
    throw new LoadProblem(`it is made for panel ${manifest.engine}; this is ${panelVersion}`)
  }
  try {
    const schema = await compileConfigSchema(manifest.configSchema)
    return { ...manifest, displayName: manifest.displayName ?? manifest.name, schema }
  } catch (error) {
    if (error instanceof SchemaProblem)
      throw new LoadProblem(`${MANIFEST} is not valid: configSchema: ${error.message}`)
    throw error
  }
}

/** The handlers that the manifest names, each once. */
export function handlersOf({ routes, events, tasks }: Manifest): string[] {
  return [...new Set([...routes, ...events, ...tasks].map(({ handler }) => handler))]
}

/** What the plugin asks for, each once. */
export function permissionsOf(manifest: Manifest): Permission[] {
  return [...new Set(manifest.permissions)].sort()
}

async function readText(path: string): Promise<string> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      const facts = await file.stat()
      if (!facts.isFile()) throw new LoadProblem(`${MANIFEST} is not a file`)
      if (facts.size > MOST_BYTES) throw new LoadProblem(`${MANIFEST} is larger than ${MOST_BYTES} bytes`)
      return await file.readFile('utf8')
    } finally {
      await file.close()
    }
  } catch (error) {
    if (error instanceof LoadProblem) throw error
    throw new LoadProblem(`${MANIFEST} cannot be read: ${error instanceof Error ? error.message : String(error)}`)
  }
}

function parseText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new LoadProblem(`${MANIFEST} is not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
}

function isUnique(texts: readonly string[]): boolean {
  return new Set(texts).size === texts.length
}
