import { readdirSync, readFileSync } from 'node:fs'
import { join, normalize } from 'node:path'

/** The root of the repository. */
export const ROOT = join(import.meta.dirname, '..')

/** One import of one file: another file of ours (by its path from the root), or the name of a package. */
export interface Edge {
  readonly from: string
  readonly to: string
  readonly own: boolean
  /** Erased by the compiler. */
  readonly typeOnly: boolean
}

const NAMES = String.raw`(?:[\w$]+(?:,\s*)?)?(?:\{[^}]*\}|\*(?:\s+as\s+[\w$]+)?)?`
const STATIC = new RegExp(String.raw`^(?:import|export)\s+(type\s+)?(?:${NAMES}\s+from\s+)?'([^']+)'`, 'gm')
const DYNAMIC = /(typeof\s+)?\bimport\(\s*'([^']+)'\s*\)/g

/** Source files below a folder of the repository, as paths from the root. */
export function sourceFiles(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => `${folder}/${name}`)
    .sort()
}

export function readSource(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8')
}

/** The text without comments that begin a line or follow a blank, so that words in them count for nothing. */
export function withoutComments(text: string): string {
  return text.replace(/^[ \t]*\/\*[\s\S]*?\*\//gm, '').replace(/(^|\s)\/\/.*$/gm, '$1')
}

/** The imports of a file: statements, re-exports and `import()`. */
export function edgesOf(file: string, text: string): Edge[] {
  const code = withoutComments(text)
  const found = [...code.matchAll(STATIC), ...code.matchAll(DYNAMIC)]
  return found.map(([, typeOnly, specifier = '']) => {
    const own = specifier.startsWith('.')
    const to = own ? normalize(join(file, '..', specifier)) : packageOf(specifier)
    return { from: file, to, own, typeOnly: typeOnly !== undefined }
  })
}

function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

/** What a part of the tree may import. The first part whose pattern fits a file decides. */
interface Part {
  readonly name: string
  readonly files: RegExp
  /** Files of ours outside the part that it may import. */
  readonly may: readonly RegExp[]
  readonly packages: readonly string[]
  /** Node's own modules are allowed unless the part must also run where there is no Node. */
  readonly node: boolean
}

const KERNEL = /^src\/shared\/kernel\//
/** What daemon and agent say to each other. */
const PROTOCOL = /^src\/shared\/protocol\//
const SHARED = /^src\/shared\//
/** Node without the domain: every wing that runs on Node may use it. */
const PLATFORM = /^src\/shared\/platform\//
const DB = /^src\/daemon\/db\//
const CORE = /^src\/daemon\/core\//
const ACCESS = /^src\/daemon\/access\//
const CONFIG = /^src\/daemon\/config\//
/** Work that outlives the process that began it; kinds of it live with their features. */
const JOBS = /^src\/daemon\/jobs\//
const HTTP = /^src\/daemon\/http\//
const GATEWAY = /^src\/daemon\/gateway\//
/** Buckets of S3 and what is done with objects in them. */
const OBJECT_STORE = /^src\/daemon\/object-store\//

/** Slices of features in their order: each may use the files of earlier ones, but never their routes. */
const SLICES: readonly (readonly string[])[] = [
  ['signals/mail'],
  ['accounts/auth'],
  ['operations/settings'],
  ['accounts/users'],
  ['accounts/passkeys', 'accounts/sso', 'accounts/ssh-keys'],
  ['fleet/nodes'],
  ['fleet/locations', 'catalog/templates'],
  ['operations/stores'],
  ['operations/self-backups'],
  ['servers/servers'],
  ['servers/sharing', 'servers/console', 'servers/databases', 'servers/files', 'signals/events'],
  ['servers/backups', 'servers/sftp'],
  ['operations/backup-policies'],
  ['servers/schedules'],
  [
    'operations/audit-log',
    'operations/jobs',
    'operations/overview',
    'signals/system-errors',
    'operations/updates',
    'signals/webhooks',
  ],
  ['signals/alerts', 'plugins'],
  ['operations/system'],
  ['operations/migration'],
]
const DAEMON_PACKAGES = [
  '@node-rs/argon2',
  '@simplewebauthn/server',
  'ajv',
  'ignore',
  'ipaddr.js',
  'kysely',
  'mysql2',
  'nodemailer',
  'openid-client',
  'otpauth',
  'pg',
  're2js',
  'tar',
  'undici',
  'yaml',
  'zod',
]

const PARTS: readonly Part[] = [
  { name: 'shared/endpoints.ts', files: /^src\/shared\/endpoints\.ts$/, may: [SHARED], packages: [], node: false },
  { name: 'shared', files: /^src\/shared\/[^/]+$/, may: [KERNEL], packages: ['zod'], node: false },
  {
    name: 'shared/outline',
    files: /^src\/shared\/outline\//,
    may: [KERNEL, /^src\/shared\/outline\//],
    packages: ['zod'],
    node: false,
  },
  { name: 'shared/kernel', files: KERNEL, may: [KERNEL], packages: ['zod'], node: false },
  { name: 'shared/protocol', files: PROTOCOL, may: [KERNEL, PROTOCOL], packages: ['zod'], node: false },
  {
    name: 'shared/api',
    files: /^src\/shared\/api\//,
    may: [KERNEL, PROTOCOL, /^src\/shared\/api\//],
    packages: ['zod'],
    node: false,
  },
  {
    name: 'shared/templates',
    files: /^src\/shared\/templates\//,
    may: [KERNEL, PROTOCOL, /^src\/shared\/(?:api|templates)\//],
    packages: ['re2js', 'yaml', 'zod'],
    node: true,
  },
  {
    name: 'shared/platform',
    files: PLATFORM,
    may: [KERNEL, PROTOCOL, PLATFORM],
    packages: ['ipaddr.js', 'zod'],
    node: true,
  },
  {
    name: 'agent',
    files: /^src\/agent\//,
    // The reader of documents that people write.
    may: [KERNEL, PROTOCOL, PLATFORM, /^src\/shared\/templates\/document\.ts$/, /^src\/agent\//],
    packages: [
      '@xmldom/xmldom',
      'ignore',
      'pino-pretty',
      're2js',
      'ssh2',
      'toml-eslint-parser',
      'undici',
      'ws',
      'yaml',
      'yauzl',
      'yazl',
      'zod',
    ],
    node: true,
  },
  {
    name: 'cli',
    files: /^src\/cli\//,
    may: [SHARED, /^src\/cli\//],
    packages: [
      '@inquirer/prompts',
      'commander',
      'eventsource-parser',
      'get-east-asian-width',
      'ink',
      'jq-wasm',
      'qrcode',
      're2js',
      'react',
      'string-width',
      'tar',
      'undici',
      'yaml',
      'yauzl',
      'zod',
    ],
    node: true,
  },
  {
    name: 'daemon/db',
    files: DB,
    may: [KERNEL, PROTOCOL, PLATFORM, DB, /^src\/daemon\/core\/log\.ts$/],
    packages: ['kysely', 'sqlite3', 'zod'],
    node: true,
  },
  {
    name: 'daemon/core',
    files: CORE,
    may: [KERNEL, PLATFORM, DB, CORE],
    packages: ['croner', 'kysely', 'pino', 'pino-pretty', 'prom-client', 'zod'],
    node: true,
  },
  {
    name: 'daemon/config',
    files: CONFIG,
    may: [KERNEL, CORE, CONFIG],
    packages: ['@fastify/proxy-addr', 'yaml', 'zod'],
    node: true,
  },
  { name: 'daemon/access', files: ACCESS, may: [KERNEL, DB, CORE, ACCESS], packages: ['kysely', 'zod'], node: true },
  {
    name: 'daemon/jobs',
    files: JOBS,
    may: [KERNEL, DB, CORE, ACCESS, JOBS],
    packages: ['kysely', 'prom-client', 'zod'],
    node: true,
  },
  {
    name: 'daemon/http',
    files: HTTP,
    may: [KERNEL, PLATFORM, DB, CORE, ACCESS, HTTP],
    packages: [
      '@fastify/cookie',
      '@fastify/multipart',
      '@fastify/rate-limit',
      'csv-stringify',
      'fastify',
      'ipaddr.js',
      'kysely',
      'prom-client',
      'zod',
    ],
    node: true,
  },
  {
    name: 'daemon/object-store',
    files: OBJECT_STORE,
    may: [KERNEL, PLATFORM, OBJECT_STORE],
    packages: ['@xmldom/xmldom', 'aws4fetch', 'undici'],
    node: true,
  },
  {
    name: 'daemon/gateway',
    files: GATEWAY,
    may: [KERNEL, PROTOCOL, PLATFORM, DB, CORE, GATEWAY, OBJECT_STORE, /^src\/daemon\/http\/headers\.ts$/],
    packages: ['fastify', 'kysely', 'prom-client', 'ws', 'zod'],
    node: true,
  },
  ...SLICES.flatMap((group, index) =>
    group.map((slice): Part => {
      const earlier = SLICES.slice(0, index).flat()
      const others =
        earlier.length === 0 ? [] : [new RegExp(`^src/daemon/features/(?:${earlier.join('|')})/(?!.*routes\\.ts$)`)]
      const own = new RegExp(`^src/daemon/features/${slice}/`)
      return {
        name: `daemon/${slice}`,
        files: own,
        may: [SHARED, DB, CORE, ACCESS, JOBS, HTTP, GATEWAY, OBJECT_STORE, own, ...others],
        packages: DAEMON_PACKAGES,
        node: true,
      }
    }),
  ),
  {
    name: 'plugin-host',
    files: /^src\/plugin-host\//,
    may: [/^src\/shared\/protocol\/plugin-frames\.ts$/, /^src\/plugin-host\//],
    packages: [],
    node: true,
  },
  {
    name: 'daemon/embedded-agent.ts',
    files: /^src\/daemon\/embedded-agent\.ts$/,
    may: [SHARED, /^src\/daemon\//, /^src\/agent\/[^/]+$/],
    packages: [],
    node: true,
  },
  {
    name: 'daemon wiring',
    files: /^src\/daemon\/(?:start\/)?[^/]+$/,
    may: [SHARED, /^src\/daemon\//],
    packages: ['@fastify/proxy-addr', 'fastify', 'zod'],
    node: true,
  },
  {
    name: 'bin',
    files: /^bin\//,
    may: [/^src\/(?:daemon|agent|cli)\/[^/]+$/, /^src\/agent\/holder\/main\.ts$/],
    packages: [],
    node: true,
  },
]

/** Every import that ARCHITECTURE.md's table does not allow, one sentence each. */
export function violations(edges: readonly Edge[]): string[] {
  return edges.flatMap((edge) => {
    const part = PARTS.find(({ files }) => files.test(edge.from))
    if (part === undefined) return [`${edge.from} belongs to no part of the tree`]
    const allowed = edge.own
      ? part.may.some((pattern) => pattern.test(edge.to))
      : part.packages.includes(edge.to) || (part.node && edge.to.startsWith('node:'))
    return allowed ? [] : [`${edge.from} (${part.name}) imports ${edge.to}`]
  })
}

/** Files that import each other in a circle; each circle once, as the list of its files. */
export function cycles(edges: readonly Edge[]): string[][] {
  const next = new Map<string, string[]>()
  for (const { from, to, own } of edges) if (own) next.set(from, [...(next.get(from) ?? []), to])
  const found: string[][] = []
  const done = new Set<string>()
  const path: string[] = []
  const visit = (file: string): void => {
    const at = path.indexOf(file)
    if (at >= 0) {
      found.push(path.slice(at))
      return
    }
    if (done.has(file)) return
    path.push(file)
    for (const to of next.get(file) ?? []) visit(to)
    path.pop()
    done.add(file)
  }
  for (const file of next.keys()) visit(file)
  return found
}

/** Everything that loading `file` loads at once: its imports and theirs, without types and `import()`. */
export function loadedBy(file: string): ReadonlySet<string> {
  const seen = new Set<string>()
  const visit = (one: string): void => {
    if (seen.has(one)) return
    seen.add(one)
    const code = withoutComments(readSource(one)).replace(DYNAMIC, '')
    for (const { to, own, typeOnly } of edgesOf(one, code)) {
      if (typeOnly) continue
      if (own) visit(to)
      else seen.add(to)
    }
  }
  visit(file)
  return seen
}
