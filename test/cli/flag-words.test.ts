import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Command, optionName, takesValue, walk } from '../../src/cli/kit/command.ts'
import { calledBy } from '../../src/cli/kit/field-names.ts'
import { GLOBAL_FLAGS } from '../../src/cli/kit/flags.ts'
import { parse } from '../../src/cli/kit/program.ts'
import { reportOf, reportText } from '../../src/cli/kit/report.ts'
import { tree } from '../../src/cli/whole-tree.ts'
import { endpoints } from '../../src/shared/endpoints.ts'
import { THEME_DEFAULTS } from '../../src/shared/kernel/setting-values.ts'
import { runHere } from './run-here.ts'
import { serverAnswer } from './tui/server-answer.ts'

/** A peer that answers each `METHOD /path` as it is told, and keeps what it was sent. */
const answers = new Map<string, { status: number; body: unknown }>()
const received: { what: string; body: unknown }[] = []
let http: Server
let url: string
let home: string

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'panel-words-'))
  http = createServer(async (request, response) => {
    let text = ''
    for await (const part of request) text += String(part)
    const what = `${request.method} ${request.url?.split('?')[0]}`
    received.push({ what, body: text === '' ? undefined : JSON.parse(text) })
    const { status, body } = answers.get(what) ?? {
      status: 404,
      body: { success: false, error: `nothing for ${what}`, code: 'NOT_FOUND' },
    }
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }).listen(0, '127.0.0.1')
  await new Promise((done) => http.once('listening', done))
  url = `http://127.0.0.1:${(http.address() as AddressInfo).port}` // a TCP listener has one
})
afterAll(async () => {
  http.close()
  await rm(home, { recursive: true })
})

const answer = (what: string, data: unknown, status = 200): void =>
  void answers.set(what, { status, body: { success: true, data } })
const refuse = (what: string, error: string, details: readonly { field: string; message: string }[]): void =>
  void answers.set(what, { status: 400, body: { success: false, error, code: 'VALIDATION_ERROR', details } })
const run = (args: readonly string[], input = '') =>
  runHere([...args, '--retries', '0'], { env: { PANEL_URL: url, PANEL_TOKEN: 'pak_x', PANEL_CONFIG_DIR: home }, input })

const SERVER = 'srv_01k000000000000000000000aa'
const server = (differs: Record<string, unknown> = {}) => ({
  ...serverAnswer('running'),
  id: SERVER,
  name: 'demo',
  ...differs,
})

describe('a refusal', () => {
  it.each([
    {
      args: ['setup', '--admin-email', 'a', '--admin-username', 'b', '--password-stdin'],
      what: 'POST /api/setup/complete',
      details: [
        { field: 'body.password', message: 'must have at least 12 characters' },
        { field: 'body.email', message: 'must be an e-mail address' },
      ],
      lines: ['  --password-stdin: must have at least 12 characters', '  --admin-email: must be an e-mail address'],
    },
    {
      args: ['profile', 'password', '--set', '--password-stdin'],
      what: 'POST /api/auth/profile/set-password',
      details: [{ field: 'body.newPassword', message: 'must contain a digit' }],
      lines: ['  --password-stdin: must contain a digit'],
    },
    {
      args: ['servers', 'edit', SERVER, '--env', 'NOPE=1'],
      what: `PUT /api/servers/${SERVER}`,
      details: [{ field: 'body.environment.NOPE', message: 'is no variable of the template' }],
      lines: ['  --env NOPE: is no variable of the template'],
    },
    {
      args: ['servers', 'edit', SERVER, '--allocation', 'alc_01k000000000000000000000aa', '--port', '1'],
      what: `PUT /api/servers/${SERVER}`,
      details: [{ field: 'body.allocationId', message: 'and another primaryPort or primaryIp exclude each other' }],
      lines: ['  --allocation: and another --port or --ip exclude each other'],
    },
    {
      args: ['servers', 'edit', SERVER, '--name', 'x'],
      what: `PUT /api/servers/${SERVER}`,
      details: [{ field: 'body.somethingNew.0.deep', message: 'is required' }],
      lines: ['  somethingNew.0.deep: is required'],
    },
  ])('of $args names the flag that is wrong', async ({ args, what, details, lines }) => {
    answer(`GET /api/servers/${SERVER}`, server())
    const [first] = details
    refuse(what, `The request is not valid: ${first?.field} ${first?.message}`, details)
    const { code, stderr } = await run(args, 'weak\n')
    expect({ code, stderr }).toEqual({
      code: 8,
      stderr: `panel: The request is not valid (VALIDATION_ERROR)\n${lines.map((line) => `${line}\n`).join('')}`,
    })
  })

  it('names a flag or a word for each field of each command, and never the part of the request', () => {
    for (const { path, command } of walk(tree)) {
      for (const id of command.endpoints ?? []) {
        const one = endpoints.find((endpoint) => endpoint.id === id)
        const body = one?.body instanceof z.ZodObject ? Object.keys(one.body.shape) : []
        const fields = [
          ...body.map((name) => `body.${name}`),
          ...Object.keys(one?.params ?? {}).map((name) => `params.${name}`),
        ]
        for (const field of fields)
          expect(calledBy(command, field), path.join(' ')).not.toMatch(/^(body|params|query\.)/)
        for (const name of ['password', 'newPassword', 'currentPassword', 'environment', 'allocationId', 'token']) {
          const takes = (command.options ?? []).some(({ flags }) =>
            /^--(password|env|allocation|token|current-password)\b/.test(flags),
          )
          if (!body.includes(name) || !takes) continue
          expect(calledBy(command, `body.${name}`), `${path.join(' ')}: ${name}`).toMatch(/^--/)
        }
      }
    }
  })
})

describe('a global flag', () => {
  const globals = new Map(GLOBAL_FLAGS.map(({ flags }) => [optionName(flags), flags] as const))

  it('never takes the natural word of what a command sends', () => {
    const kebab = (field: string): string => field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
    const taken: string[] = []
    for (const { path, command } of walk(tree)) {
      for (const id of command.endpoints ?? []) {
        const one = endpoints.find((endpoint) => endpoint.id === id)
        const parts = [one?.body, one?.query].flatMap((part) =>
          part instanceof z.ZodObject ? Object.keys(part.shape) : [],
        )
        for (const field of parts.filter((name) => globals.has(kebab(name)))) {
          const own = (command.options ?? []).some(
            (option) => optionName(option.flags) === kebab(field) && option.field === field,
          )
          // Who writes a required word as a flag lacks the word: nothing is sent to the address that the flag names.
          const isArgument = (command.arguments ?? []).some(
            ({ name, optional }) => name === kebab(field) && optional !== true,
          )
          if (!own && !isArgument) taken.push(`${path.join(' ')}: ${field}`)
        }
      }
    }
    expect(taken).toEqual([])
  })

  it('is another thing than an option of the command that is called like it', () => {
    const valued = new Set([...globals].filter(([, flags]) => flags.includes('<')).map(([name]) => name))
    const shadowing = [...walk(tree)].filter(({ command }) =>
      (command.options ?? []).some(({ flags }) => valued.has(optionName(flags))),
    )
    expect(shadowing.length).toBeGreaterThan(0)
    for (const { path, command } of shadowing) {
      for (const { flags } of command.options ?? []) {
        const name = optionName(flags)
        if (!valued.has(name)) continue
        const word = (command.arguments ?? []).filter(({ optional }) => optional !== true).map(() => 'word')
        const words = [`--${name}`, 'global', ...path, ...word, `--${name}`, 'own']
        const invocation = parse(tree, words)
        const args = invocation.kind === 'run' ? invocation.args : undefined
        expect([args?.text(name), args?.globalText(name)], words.join(' ')).toEqual(['own', 'global'])
        const bare = parse(tree, [...path, ...word, `--${name}=own`, '-o', 'json'])
        const read = bare.kind === 'run' ? bare.args : undefined
        expect([read?.text(name), read?.globalText(name), read?.text('output')]).toEqual(['own', undefined, 'json'])
      }
    }
  })

  it('sends nothing to the source of files pull that is written as --url', async () => {
    received.length = 0
    const { code, stderr } = await run(['files', 'pull', '--url', `${url}/mod.jar`, 'demo:mods'])
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining("missing required argument 'place'") })
    expect(received).toEqual([])
  })

  it('leaves webhooks create --url to the webhook', async () => {
    received.length = 0
    await run(['webhooks', 'create', '--name', 'chat', '--url', 'https://hooks.example.org/x'])
    expect(received).toEqual([
      { what: 'POST /api/admin/webhooks', body: { name: 'chat', url: 'https://hooks.example.org/x' } },
    ])
  })
})

describe('an empty word', () => {
  const wordsOf = (command: Command): string[] =>
    (command.arguments ?? []).filter(({ optional }) => optional !== true).map((it) => it.choices?.[0] ?? 'word')
  const flagsOf = (path: readonly string[], command: Command) => [
    ...(command.options ?? []),
    ...(path.join(' ') === 'servers list' ? GLOBAL_FLAGS : []),
  ]
  const refusal = (words: readonly string[]): string => {
    try {
      parse(tree, words)
      return 'none'
    } catch (error) {
      return reportText(reportOf(error), undefined).split('\n', 1)[0] ?? ''
    }
  }

  it('is refused by the name of its argument or flag, but for texts that it clears', () => {
    const free = new Set<string>()
    for (const { path, command } of walk(tree)) {
      const words = wordsOf(command)
      for (const [i, { name, blank }] of (command.arguments ?? []).entries()) {
        const said = refusal([...path, ...words.slice(0, i), ' ', ...words.slice(i + 1)])
        if (blank === true) free.add(name)
        expect(said, path.join(' ')).toBe(blank === true ? 'none' : `panel: <${name}> is empty (USAGE)`)
      }
      for (const { flags, blank, choices } of flagsOf(path, command)) {
        if (!flags.includes('<')) continue
        const name = `--${optionName(flags)}`
        const said = refusal([...path, ...words, name, ''])
        if (blank === true) free.add(name)
        else if (choices === undefined) expect(said, path.join(' ')).toBe(`panel: ${name} is empty (USAGE)`)
        else expect(said, path.join(' ')).toContain(name)
      }
    }
    expect([...free].sort().join(' ')).toBe(
      '--alias --author --description --first-name --grep --icon --image --last-name --mount --note --send ' +
        '--startup-name --stop-command ' +
        'regex text words',
    )
  })

  it('is no second value: flags that take one are refused when they are given twice', () => {
    for (const { path, command } of walk(tree)) {
      const words = wordsOf(command)
      for (const { flags, repeat, choices } of flagsOf(path, command)) {
        if (!takesValue(flags)) continue
        const name = `--${optionName(flags)}`
        const value = choices?.[0] ?? 'x'
        const twice = refusal([...path, ...words, name, value, `${name}=${value}`])
        expect(twice, path.join(' ')).toBe(
          repeat === true ? 'none' : `panel: ${name} is given twice; it takes one value (USAGE)`,
        )
      }
    }
    const around = ['-o', 'json', 'webhooks', 'create', '-o', 'yaml']
    expect(refusal(around)).toBe('panel: --output is given twice; it takes one value (USAGE)')
  })

  it.each([
    ['', 2],
    ['n', 6],
    ['nest_', 6],
    ['nest_01k', 6],
    ['01k', 6],
    ['01k0', 0],
    ['nest_01k0', 0],
  ])(
    'never means the only one there is, nor does a beginning that says no more than the kind: %o',
    async (word, exit) => {
      const nest = 'nest_01k000000000000000000000aa'
      answer(`DELETE /api/nests/${nest}`, null)
      answers.set('GET /api/nests', {
        status: 200,
        body: {
          success: true,
          data: [{ id: nest, name: 'Games', description: null, author: null, icon: null, templateCount: 0 }].map(
            (row) => ({ ...row, createdAt: '2026-01-01T00:00:00.000Z', updatedAt: '2026-01-01T00:00:00.000Z' }),
          ),
          pagination: { page: 1, limit: 50, total: 1, totalPages: 1 },
        },
      })
      received.length = 0
      const { code, stderr } = await run(['nests', 'delete', word, '--yes'])
      expect(code, stderr).toBe(exit)
      expect(received.some(({ what }) => what.startsWith('DELETE'))).toBe(exit === 0)
    },
  )

  it('is refused in the midst of a flag as well', async () => {
    const { code, stderr } = await run(['providers', 'edit', 'sso', '--role', 'admins='])
    expect([code, stderr]).toEqual([2, expect.stringContaining('an empty word names no role')])
  })
})

describe('an edit of a server', () => {
  const edit = async (status: string, args: readonly string[], after: Record<string, unknown>) => {
    const before = { ...server(), ...serverAnswer(status), id: SERVER, name: 'demo', environment: { WORD: 'a' } }
    const power = { powerState: status === 'stopped' ? 'offline' : status }
    answer(`GET /api/servers/${SERVER}`, { ...before, ...power })
    answer(`PUT /api/servers/${SERVER}`, { ...before, ...power, appliesAt: 'next-start', ...after })
    const { code, stderr } = await run(['servers', 'edit', SERVER, ...args])
    expect(code, stderr).toBe(0)
    return stderr
  }

  it('says what counts at the next start only, and only that', async () => {
    const note = 'in force at the next start of demo (panel servers restart demo)\n'
    expect(await edit('running', ['--env', 'WORD=b'], { environment: { WORD: 'b' } })).toBe(`--env: ${note}`)
    const more = { allocatedMemoryMb: 999, allocatedCpuCores: 3.5 }
    expect(await edit('running', ['--memory', '999', '--cpu', '3.5'], more)).toBe(`--memory, --cpu: ${note}`)
    expect(await edit('running', ['--memory', '999'], { allocatedMemoryMb: 999, appliesAt: 'now' })).toBe('')
    expect(await edit('running', ['--env', 'WORD=a'], {})).toBe('')
    expect(await edit('running', ['--description', 'x'], { description: 'x' })).toBe('')
    expect(await edit('stopped', ['--env', 'WORD=b'], { environment: { WORD: 'b' } })).toBe('')
  })
})

describe('an answer for people', () => {
  it('of profile edit shows what was changed', async () => {
    answer('PATCH /api/auth/profile', {
      id: 'usr_01k000000000000000000000aa',
      username: 'admin',
      firstName: 'Ann',
      lastName: null,
    })
    const { stdout } = await run(['profile', 'edit', '--first-name', 'Ann'])
    expect(stdout).toMatch(/FIRST NAME\s+Ann/)
  })

  it('has no JSON in it: preferences', async () => {
    answer('PATCH /api/auth/profile/preferences', { theme: 'dark', beta: true, size: 12 })
    const preferences = await run(['profile', 'preferences', '--set', 'theme=dark'])
    expect(preferences.stdout).toMatch(/^PREFERENCE +VALUE\ntheme +dark\nbeta +(true|yes)\nsize +12\n$/)
    expect(
      JSON.parse((await run(['profile', 'preferences', '--set', 'theme=dark', '-o', 'json'])).stdout),
    ).toHaveProperty('beta')
  })

  it('of the theme shows what is deep in it by its path', async () => {
    answer('GET /api/admin/theme-settings', {
      ...THEME_DEFAULTS,
      id: 'theme',
      metadata: { themeColors: { card: '#fff' }, links: [{ to: 'x' }, 2] },
      createdAt: '2026-01-01T00:00:00.000Z',
      updatedAt: '2026-01-01T00:00:00.000Z',
      locked: {},
    })
    const { stdout, stderr } = await run(['settings', 'theme', 'get'])
    expect(stdout, stderr).toMatch(/^METADATA THEME-COLORS CARD +#fff$/m)
    expect(stdout).toMatch(/^METADATA LINKS +to=x,2$/m)
    expect(stdout).not.toMatch(/[{}]/)
  })

  it('of an invitation without mail says what the guest runs', async () => {
    const user = { id: 'usr_01k000000000000000000000aa', email: 'eve@example.org', username: 'eve', name: 'eve' }
    const rest = {
      firstName: null, lastName: null, image: null, emailVerified: false, banned: false, banReason: null, banExpires: null,
      roles: [], twoFactorEnabled: false, createdAt: '2026-01-01T00:00:00.000Z', updatedAt: '2026-01-01T00:00:00.000Z',
    } // biome-ignore format: a row
    const invite = { expiresAt: '2026-01-02T00:00:00.000Z', mailed: false, token: 'pit_secret' }
    answer(
      'POST /api/admin/users/invite',
      { ...user, ...rest, lockedUntil: null, lastSuccessfulLogin: null, hasPassword: false, serverCount: 0, invite },
      201,
    )
    const { stdout, stderr } = await run(['users', 'invite', '--email', 'eve@example.org'])
    expect(stdout, stderr).toBe('pit_secret\n')
    expect(stderr).toContain(`  panel users accept-invite --url ${url} --token-stdin\n`)
    expect(stderr).toContain('is reached from this machine only')
  })

  it('of an update check that nobody can answer is unknown, and its exit code not that of "no"', async () => {
    const versions = { currentVersion: '0.1.0', latestVersion: null, updateAvailable: false, isDocker: false }
    answer('GET /api/update/check', versions)
    const unknown = await run(['update', 'check', '--detailed-exitcode'])
    expect(unknown).toMatchObject({ code: 14, stdout: expect.stringMatching(/UPDATE\s+unknown/) })
    expect(await run(['update', 'check'])).toMatchObject({ code: 14 })
    answer('GET /api/update/check', { ...versions, latestVersion: '0.1.0' })
    expect(await run(['update', 'check', '--detailed-exitcode'])).toMatchObject({ code: 0 })
    answer('GET /api/update/check', { ...versions, latestVersion: '0.2.0', updateAvailable: true })
    expect(await run(['update', 'check', '--detailed-exitcode'])).toMatchObject({ code: 10 })
  })

  it('turns marks of direction in names into text', async () => {
    const hostile = 'gnp.\u202Eexe\u2066x\u2069\u200F'
    answers.set('GET /api/servers', {
      status: 200,
      body: {
        success: true,
        data: [server({ name: hostile })],
        pagination: { page: 1, limit: 50, total: 1, totalPages: 1 },
      },
    })
    for (const format of ['table', 'wide']) {
      const { stdout } = await run(['servers', 'list', '-o', format])
      expect(stdout).toContain('gnp.\\u202eexe\\u2066x\\u2069\\u200f')
      expect(stdout).not.toMatch(/[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/)
    }
  })
})

it('without a context a command ends with 4 and says how to get one', async () => {
  const { code, stderr } = await runHere(['servers', 'list'], { env: { PANEL_CONFIG_DIR: home } })
  expect(code).toBe(4)
  expect(stderr).toBe(
    'panel: no panel is chosen (NOT_SIGNED_IN)\n  try: panel up (a panel on this machine), or panel login <url>\n',
  )
})
