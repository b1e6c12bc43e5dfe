import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { API_ONLY, coverage } from '../../src/cli/coverage.ts'
import { walk } from '../../src/cli/kit/command.ts'
import { wantsHelp } from '../../src/cli/kit/help-request.ts'
import { parse } from '../../src/cli/kit/program.ts'
import { writeManPages } from '../../src/cli/man.ts'
import { treeFor } from '../../src/cli/tree.ts'
import { VERSION } from '../../src/cli/version.ts'
import { tree } from '../../src/cli/whole-tree.ts'
import { endpoints, streams } from '../../src/shared/endpoints.ts'

/** Splits an example as a shell would, as far as our examples need it. */
function wordsOf(example: string): string[] {
  const own = /panel .*/.exec(example)?.[0] ?? ''
  const line = own.split(/ [|<>]|\)| && /)[0] ?? ''
  return [...line.matchAll(/'([^']*)'|"((?:[^"\\]|\\.)*)"|((?:[^\s'"]|'[^']*')+)/g)]
    .map(([, single, double, plain]) => single ?? double ?? plain?.replace(/'([^']*)'/g, '$1') ?? '')
    .slice(1)
}

const commands = [...walk(tree)]
const byId = new Map([...endpoints, ...streams].map((one) => [one.id, one]))

/** The words that an endpoint takes for a field, when they are a fixed few and only one is given. */
function wordsFor(id: string, name: string): readonly unknown[] | undefined {
  const one = byId.get(id)
  const part = one !== undefined && 'body' in one && one.body instanceof z.ZodObject ? one.body : one?.query
  let field: unknown = part instanceof z.ZodObject ? part.shape[name] : undefined
  while (field instanceof z.ZodOptional || field instanceof z.ZodNullable || field instanceof z.ZodDefault)
    field = field.unwrap()
  return field instanceof z.ZodEnum ? field.options : undefined
}

describe('the command tree', () => {
  it.each(tree.map((node) => [node.name, node] as const))(
    '%s is found by its names without the others',
    async (_, node) => {
      for (const name of [node.name, ...(node.aliases ?? [])]) {
        const part = await treeFor(name, [name])
        expect(part.find((one) => one.name === node.name)).toBe(node)
        expect(part.map(({ name, aliases }) => [name, ...(aliases ?? [])])).toEqual(
          tree.map(({ name, aliases }) => [name, ...(aliases ?? [])]),
        )
      }
    },
  )

  it('is there as a whole for what no name begins', async () => {
    expect(await treeFor('serves', ['serves', 'list'])).toEqual(tree)
    expect(await treeFor(undefined, [])).toEqual(tree)
  })

  it('has one command for each endpoint, or a reason on the list', () => {
    const covered = coverage()
    const all = [...endpoints, ...streams].map(({ id }) => id)
    expect(all.filter((id) => !covered.has(id) && API_ONLY[id] === undefined)).toEqual([])
    expect(all.filter((id) => covered.has(id) && API_ONLY[id] !== undefined)).toEqual([])
    expect([...covered.keys(), ...Object.keys(API_ONLY)].filter((id) => !all.includes(id))).toEqual([])
    expect([...covered].filter(([, paths]) => paths.length > 1)).toEqual([])
  })

  it.each(commands.map(({ path, command }) => [path.join(' '), command] as const))(
    '%s offers what the API takes for each of its flags',
    (_, command) => {
      for (const { flags, field, choices } of command.options ?? []) {
        if (field === undefined) continue
        for (const words of (command.endpoints ?? []).map((id) => wordsFor(id, field))) {
          if (words !== undefined) expect(choices, flags).toEqual(words)
        }
      }
    },
  )

  it.each(commands.map(({ path, command }) => [path.join(' '), command] as const))(
    '%s has examples that parse as itself',
    (path, command) => {
      expect(command.examples.length).toBeGreaterThan(0)
      for (const example of command.examples) {
        const words = wordsOf(example)
        const invocation = parse(tree, words)
        expect(invocation.kind === 'run' ? invocation.path.join(' ') : '', example).toBe(path)
      }
    },
  )

  it.each(commands.map(({ path, command }) => [path, command] as const))(
    '%s shows its examples and flags as help',
    (path, command) => {
      const help = wantsHelp(tree, [...path, '--help']) ?? ''
      for (const example of command.examples) expect(help).toContain(example)
      for (const { flags } of command.options ?? []) expect(help).toContain(flags)
      expect(help.indexOf('Examples:')).toBeLessThan(help.indexOf('Usage:'))
    },
  )

  it.each(commands.map(({ path, command }) => [path.join(' '), command] as const))(
    '%s has examples that a shell passes on as they are',
    (_, { examples }) => {
      // Unquoted, * and [ are patterns: bash puts the names of files in their place, zsh refuses a line that fits none.
      const unquoted = examples.map((example) => example.replace(/'[^']*'|"[^"]*"/g, ''))
      expect(unquoted.filter((example) => /[*[\]]/.test(example))).toEqual([])
    },
  )

  it.each(commands.map(({ path, command }) => [path, command] as const))(
    '%s says each exit code, choice and repetition once',
    (path, { exits = [], options = [] }) => {
      const usual = [0, 1, 2, 4, 5, 13]
      expect(exits).toEqual([...new Set(exits)].filter((code) => !usual.includes(code)).sort((a, b) => a - b))
      const help = (wantsHelp(tree, [...path, '--help']) ?? '').replace(/\s+/g, ' ')
      expect(help).not.toMatch(/several times[^;]*; may be repeated/)
      for (const { summary, choices = [] } of options) {
        if (!summary.includes(`${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}`)) continue
        expect(help).not.toContain(`(${choices.join(', ')})`)
      }
    },
  )

  it('says of every option that a creation cannot do without that it is required', () => {
    // The command fills these itself.
    const filled = ['nodeId', 'locationId', 'allocatedMemoryMb', 'allocatedCpuCores', 'allocatedDiskMb']
    const byId = new Map(endpoints.map((endpoint) => [endpoint.id, endpoint] as const))
    const silent = commands.flatMap(({ path, command }) => {
      const bodies = (command.endpoints ?? []).flatMap((id) => byId.get(id)?.body ?? [])
      const needed = bodies.flatMap(
        (body) => z.toJSONSchema(body, { io: 'input', unrepresentable: 'any' }).required ?? [],
      )
      const own = path.join(' ') === 'servers create' ? needed.filter((field) => !filled.includes(field)) : needed
      return (command.options ?? [])
        .filter(({ field, required }) => field !== undefined && own.includes(field) && required !== true)
        .map(({ flags }) => `${path.join(' ')} ${flags}`)
    })
    expect(silent).toEqual([])
    const create = commands.find(({ path }) => path.join(' ') === 'servers create')
    expect(wantsHelp(tree, [...(create?.path ?? []), '--help'])).toMatch(/--template <template> .*\(required\)/)
  })

  it('points to --confirm where --yes is not enough', () => {
    expect(() => parse(tree, ['servers', 'delete', 'x', '--yes'])).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('--confirm <name>') }),
    )
    expect(() => parse(tree, ['servers', 'view', 'x', '--yes'])).toThrow(
      expect.objectContaining({ hint: 'panel servers view --help' }),
    )
  })

  it('loads an action for every command', async () => {
    for (const { path, command } of commands) expect(typeof (await command.load()), path.join(' ')).toBe('function')
  })

  it('takes global flags at any place and knows singular nouns', () => {
    for (const words of [
      ['-o', 'json', 'servers', 'view', 'demo'],
      ['server', '-o', 'json', 'view', 'demo'],
      ['servers', 'view', 'demo', '-o', 'json'],
    ]) {
      const invocation = parse(tree, words)
      expect(
        invocation.kind === 'run' && [
          invocation.path.join(' '),
          invocation.args.text('output'),
          invocation.args.word('server'),
        ],
      ).toEqual(['servers view', 'json', 'demo'])
    }
  })

  it('shows the help of the command although a flag with a value stands before it', () => {
    expect(wantsHelp(tree, ['--context', 'x', 'servers', 'list', '--help'])).toContain('panel servers list [flags]')
  })

  it('has the version of package.json', async () => {
    const text = await readFile(join(import.meta.dirname, '../../package.json'), 'utf8')
    expect(JSON.parse(text).version).toBe(VERSION)
  })
})

describe('man pages', () => {
  it('exist for every noun and have nothing for mandoc to complain of', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'panel-man-'))
    try {
      const pages = await writeManPages(folder, 'January 1, 2026')
      expect(pages).toEqual([
        'panel.1',
        ...tree.filter(({ name }) => name !== '__complete').map(({ name }) => `panel-${name}.1`),
      ])
      const lint = spawnSync('mandoc', ['-T', 'lint', '-W', 'warning', ...pages.map((page) => join(folder, page))])
      // Without mandoc on the machine there is nothing to ask.
      if (lint.error === undefined) expect(String(lint.stdout)).toBe('')
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
})
