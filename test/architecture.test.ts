import { describe, expect, it } from 'vitest'
import {
  cycles,
  type Edge,
  edgesOf,
  loadedBy,
  readSource,
  sourceFiles,
  violations,
  withoutComments,
} from './module-graph.ts'

const program = [...sourceFiles('bin'), ...sourceFiles('src')]
const everything = [...program, ...sourceFiles('test')]
const edges = program.flatMap((file) => edgesOf(file, readSource(file)))

/** Files whose code (comments left out) contains the pattern. */
function filesWith(files: readonly string[], pattern: RegExp): string[] {
  return files.filter((file) => pattern.test(withoutComments(readSource(file))))
}

function planted(from: string, to: string): Edge {
  return { from, to, own: to.startsWith('src/'), typeOnly: false }
}

describe('a change', () => {
  const routes = program.filter((file) => /^src\/daemon\/features\/.*routes\.ts$/.test(file))

  it('is bound to its endpoint in a file named after that: routes.ts, or <part>-routes.ts', () => {
    const features = program.filter((file) => file.startsWith('src/daemon/features/'))
    const binding = /(?<![\w.])(?:route|operate|streamRoute)(?:<\w+>)?\(|\bapp\.(?:get|post|put|patch|delete)\(/
    const found = filesWith(features, binding)
    expect(found.length).toBeGreaterThan(25)
    expect(found.filter((file) => !/\/(?:[a-z-]+-)?routes\.ts$/.test(file))).toEqual([])
    expect(features.filter((file) => file.endsWith('routes.ts') && !found.includes(file))).toEqual([])
    for (const planted of ['route(api.login, login)', 'operate(deleteKey, deps)', "app.get('/livez', live)"]) {
      expect(binding.test(planted), planted).toBe(true)
    }
    expect(filesWith(routes, /\boperationsOver\b/)).toEqual([])
  })

  it('is an operation: routes hold no transaction, audit row or event', () => {
    expect(routes.length).toBeGreaterThan(25)
    expect(filesWith(routes, /\.write\(|\baudit\.record\(|\bbus\.append\(|\brecordChange\(/)).toEqual([])
  })

  it('is out of reach of routes: they import the database for reading, and neither the audit log nor the bus', () => {
    const writing = /import (?:type )?\{[^}]*\b(?:Tx|Audit|recordChange|Bus)\b[^}]*\} from/
    // Streams listen to the bus.
    const streams = [
      'src/daemon/features/signals/events/metrics-routes.ts',
      'src/daemon/features/signals/events/routes.ts',
    ]
    expect(filesWith(routes, writing)).toEqual(streams)
    const modules = /from '[./]+(?:core\/bus|access\/audit)\.ts'/
    expect(filesWith(routes, modules)).toEqual(streams)
  })
})

describe('audit rows and events', () => {
  const code = /\baudit\.record\(|\bcreateAuditChain\(/
  const event = /\.append\(\s*tx\b/

  it('of changes are written in one place', () => {
    expect(filesWith(program, code)).toEqual([
      'src/daemon/access/audit-chain.ts',
      'src/daemon/access/audit.ts',
      'src/daemon/access/operation.ts',
    ])
  })

  it('of what nobody has changed are written where it is observed', () => {
    expect(filesWith(program, event)).toEqual([
      // Each audit row is an event too.
      'src/daemon/access/audit.ts',
      'src/daemon/access/operation.ts',
      // The state of the database's file.
      'src/daemon/app.ts',
      'src/daemon/core/system-errors.ts',
      // Nodes that come and go.
      'src/daemon/features/fleet/nodes/link.ts',
      // Runs of backup policies that begin and end.
      'src/daemon/features/operations/backup-policies/runs.ts',
      // How far servers are that move in.
      'src/daemon/features/operations/migration/change.ts',
      // What becomes of backups of the panel itself.
      'src/daemon/features/operations/self-backups/create-job.ts',
      // Another version of the program has started.
      'src/daemon/features/operations/updates/version-change.ts',
      // A plugin's process that keeps failing.
      'src/daemon/features/plugins/plugins.ts',
      // What becomes of backups.
      'src/daemon/features/servers/backups/announce.ts',
      // Runs of schedules that begin, go on and end.
      'src/daemon/features/servers/schedules/runs.ts',
      // What nodes report of servers, and that they have removed one.
      'src/daemon/features/servers/servers/observe.ts',
      'src/daemon/features/servers/servers/remove.ts',
      // What somebody who is in over SSH has changed.
      'src/daemon/features/servers/sftp/sessions.ts',
      // What rules find in figures and events.
      'src/daemon/features/signals/alerts/raise.ts',
      // How far a job is.
      'src/daemon/jobs/queue.ts',
    ])
  })

  it('are found where they are planted', () => {
    expect(code.test('await deps.audit.record(tx, actor, entry)')).toBe(true)
    expect(code.test('const chain = createAuditChain()')).toBe(true)
    expect(code.test('await work.record({ audit })')).toBe(false)
    expect(event.test("await bus.append(tx, { type: 'alert_created' })")).toBe(true)
    expect(event.test('await deps.bus.append(\n  tx,\n  event)')).toBe(true)
    expect(event.test('this.ring.append(batch)')).toBe(false)
  })
})

describe('the import rule', () => {
  it('holds for every import of the program', () => {
    expect(violations(edges)).toEqual([])
  })

  it('is judged by nearly all imports there are', () => {
    // Fewer would mean that the reader of imports has gone blind.
    expect(program.length).toBeGreaterThan(300)
    expect(edges.length).toBeGreaterThan(1500)
    for (const wing of [
      'bin/',
      'src/shared/',
      'src/daemon/http/',
      'src/daemon/features/servers/',
      'src/agent/',
      'src/cli/',
    ]) {
      expect(edges.filter(({ from, own }) => own && from.startsWith(wing)).length, wing).toBeGreaterThan(5)
    }
  })

  it('reads only files that exist', () => {
    const present = new Set(program)
    expect(edges.filter(({ own, to }) => own && !present.has(to))).toEqual([])
  })

  it.each([
    ['src/shared/kernel/ids.ts', 'node:crypto'],
    ['src/shared/kernel/contract.ts', 'src/shared/api/servers.ts'],
    ['src/shared/api/servers.ts', 'src/daemon/db/db.ts'],
    ['src/agent/server/server.ts', 'src/shared/api/servers.ts'],
    ['src/agent/server/server.ts', 'src/daemon/db/db.ts'],
    ['src/agent/server/server.ts', 'fastify'],
    ['src/cli/commands/servers/create.ts', 'src/daemon/features/servers/servers/create.ts'],
    ['src/cli/kit/run.ts', 'sqlite3'],
    ['src/daemon/http/server.ts', 'src/shared/api/servers.ts'],
    ['src/daemon/http/server.ts', 'src/daemon/features/servers/servers/rows.ts'],
    ['src/daemon/features/fleet/nodes/routes.ts', 'src/daemon/features/servers/servers/rows.ts'],
    ['src/daemon/features/servers/servers/routes.ts', 'src/daemon/features/fleet/nodes/routes.ts'],
    ['src/daemon/features/servers/servers/create.ts', 'src/daemon/features/fleet/nodes/allocation-routes.ts'],
    ['src/daemon/features/servers/servers/routes.ts', 'fastify'],
    ['src/daemon/app.ts', 'src/agent/main.ts'],
    ['src/daemon/features/newcomer/routes.ts', 'src/daemon/db/db.ts'],
    ['bin/panel.ts', 'src/daemon/db/db.ts'],
  ])('refuses that %s imports %s', (from, to) => {
    expect(violations([planted(from, to)])).toHaveLength(1)
  })

  it.each([
    ['src/shared/api/servers.ts', 'src/shared/kernel/contract.ts'],
    ['src/agent/server/server.ts', 'src/shared/protocol/frames.ts'],
    ['src/daemon/features/servers/servers/create.ts', 'src/daemon/features/fleet/nodes/capacity.ts'],
    ['src/daemon/app.ts', 'src/daemon/features/servers/servers/routes.ts'],
    ['src/daemon/embedded-agent.ts', 'src/agent/main.ts'],
    ['bin/panel.ts', 'src/cli/main.ts'],
  ])('allows that %s imports %s', (from, to) => {
    expect(violations([planted(from, to)])).toEqual([])
  })
})

describe('reading imports', () => {
  it('finds each way to write one, and none in comments', () => {
    const text = [
      "import { a,\n  b } from './a.ts'",
      "import type { B } from '../b.ts'",
      "import * as c from 'node:fs/promises'",
      "import d, { e } from '@scope/package/deep'",
      "import './effect.ts'",
      "export { f } from './f.ts'",
      "const load = async () => (await import('./late.ts')).g",
      "// import { h } from './no.ts'",
      "/** As in:\n * import { i } from './never.ts'\n */",
    ].join('\n')
    expect(edgesOf('src/x/y.ts', text).map(({ to, typeOnly }) => [to, typeOnly])).toEqual([
      ['src/x/a.ts', false],
      ['src/b.ts', true],
      ['node:fs', false],
      ['@scope/package', false],
      ['src/x/effect.ts', false],
      ['src/x/f.ts', false],
      ['src/x/late.ts', false],
    ])
  })

  it('finds a circle of imports', () => {
    const circle = [planted('src/a.ts', 'src/b.ts'), planted('src/b.ts', 'src/c.ts'), planted('src/c.ts', 'src/b.ts')]
    expect(cycles(circle)).toEqual([['src/b.ts', 'src/c.ts']])
    expect(cycles(circle.slice(0, 2))).toEqual([])
  })
})

describe('the tree', () => {
  it('has no circle of loading', () => {
    // Types are erased, and `import()` is how one thing loads another only when it is needed.
    const direct = program.flatMap((file) => edgesOf(file, readSource(file).replace(/\bimport\(/g, 'late(')))
    expect(cycles(direct.filter(({ typeOnly }) => !typeOnly))).toEqual([])
  })

  it('has no drawer: every file says what is in it, in kebab-case', () => {
    const drawer = /\/(?:utils?|helpers?|common|types?|misc|index|lib|shared)\.tsx?$/
    expect(everything.filter((file) => drawer.test(file))).toEqual([])
    expect(everything.filter((file) => !/^[a-z0-9/-]+(?:\.test)?\.tsx?$/.test(file))).toEqual([])
  })

  it('loads neither zod nor a package into a holder, of which there is one per server', () => {
    expect([...loadedBy('src/agent/holder/main.ts')].filter((name) => !/^(?:src\/|node:)/.test(name))).toEqual([])
  })

  it('loads no package into the process of a plugin, whose memory is counted', () => {
    expect([...loadedBy('src/plugin-host/main.ts')].filter((name) => !/^(?:src\/|node:)/.test(name))).toEqual([])
  })

  it('loads no action, screen or HTTP client for the help', () => {
    const declarations = sourceFiles('src/cli/commands').filter((file) => file.endsWith('/commands.ts'))
    const loaded = [...new Set(['src/cli/whole-tree.ts', ...declarations].flatMap((file) => [...loadedBy(file)]))]
    expect(loaded.length).toBeGreaterThan(15)
    expect(loaded.filter((name) => !name.startsWith('src/cli/') || /actions\.ts$|\/tui\//.test(name))).toEqual([])
  })
})

describe('surroundings reach the program in named places', () => {
  it('the environment', () => {
    expect(filesWith(program, /\bprocess\.env\b/)).toEqual([
      'src/agent/config.ts',
      'src/agent/run.ts',
      'src/cli/kit/environment.ts',
      'src/daemon/config/config.ts',
      'src/daemon/up.ts',
    ])
  })

  it('the clock', () => {
    expect(filesWith(program, /\bDate\.now\b|\bnew Date\(\)|\bperformance\.now\b/)).toEqual([
      // How long a slice of work has taken, whatever clock the rest goes by.
      'src/agent/files/walk.ts',
      'src/agent/holder/clock.ts',
      // A thread of its own, which gets nothing but lines and rules.
      'src/agent/server/ready-thread.ts',
      // The name of a snapshot.
      'src/daemon/db/migrations.ts',
      'src/shared/kernel/clock.ts',
      // Compared with the times of V8's collections, which are by that clock.
      'src/shared/platform/collect.ts',
    ])
    expect(filesWith(program, /\bsetInterval\b/)).toEqual([])
  })

  it('chance that is no secret', () => {
    // Jitter of reconnects and restarts.
    expect(filesWith(program, /\bMath\.random\b/)).toEqual(['src/agent/main.ts', 'src/cli/net/stream.ts'])
  })
})

describe('types', () => {
  const mine = 'test/architecture.test.ts'
  // Planted mistakes are source text in strings.
  const others = everything.filter((file) => file !== mine && !file.startsWith('test/mutants/'))

  it('are never switched off', () => {
    expect(filesWith(others, /[:<|&,(]\s*any\b(?=\s*[>,;)=|&[\]\n])|\bas any\b/)).toEqual([])
    expect(filesWith(others, /\bas unknown as\b/)).toEqual([])
    const suppressed = others.filter((file) => /@ts-(?:ignore|expect-error|nocheck)/.test(readSource(file)))
    expect(suppressed).toEqual([])
  })

  it('finds a planted one', () => {
    const any = /[:<|&,(]\s*any\b(?=\s*[>,;)=|&[\]\n])|\bas any\b/
    for (const text of ['(x: any) => x', 'Array<any>', 'let x: any\n', 'x as any', 'x: string | any[]']) {
      expect(any.test(text), text).toBe(true)
    }
    expect(any.test("'read, any, write'.split(', ')")).toBe(true)
    expect(any.test('if (any) {')).toBe(true)
    expect(any.test('AbortSignal.any([a, b])')).toBe(false)
  })
})

describe('accessors', () => {
  /** Members of classes are indented by two blanks, those of objects by more. */
  const ofAnObject = /^ {3,}(?:get|set) \w+\(/m

  it('are of classes where much is made: an object with its own is kept until all of the heap is collected', () => {
    const busy = program.filter((file) => /^src\/(?:daemon|agent|shared)\//.test(file))
    expect(busy.length).toBeGreaterThan(500)
    expect(filesWith(busy, ofAnObject)).toEqual([])
  })

  it('finds a planted one', () => {
    expect(ofAnObject.test('  return {\n    get signal() {\n')).toBe(true)
    expect(ofAnObject.test('class Context {\n  get signal() {\n')).toBe(false)
  })
})

describe('packages', () => {
  const manifest: unknown = JSON.parse(readSource('package.json'))
  const lock = readSource('package-lock.json')

  function section(name: string): [string, string][] {
    const found = typeof manifest === 'object' && manifest !== null ? new Map(Object.entries(manifest)).get(name) : {}
    return Object.entries(found ?? {}).map(([key, value]) => [key, String(value)])
  }

  it('have exact versions', () => {
    const all = ['dependencies', 'optionalDependencies', 'devDependencies'].flatMap(section)
    expect(all.length).toBeGreaterThan(20)
    expect(all.filter(([, version]) => !/^\d+\.\d+\.\d+(?:-[\w.-]+)?$/.test(version))).toEqual([])
  })

  it('are all declared, and all used', () => {
    const declared = section('dependencies').map(([name]) => name)
    const used = new Set(edges.filter(({ own, to }) => !own && !to.startsWith('node:')).map(({ to }) => to))
    expect([...used].filter((name) => !declared.includes(name))).toEqual([])
    // Streams are read by its parser, which is a package of its own; the tests read them by the whole.
    expect(declared.filter((name) => !used.has(name))).toEqual(['eventsource'])
  })

  it('come from whatever registry the installer is set to', () => {
    expect(lock).toContain('"integrity"')
    expect(lock).not.toContain('"resolved"')
  })
})
