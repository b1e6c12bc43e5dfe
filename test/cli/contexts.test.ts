import { once } from 'node:events'
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { readContexts } from '../../src/cli/kit/profile/contexts.ts'
import { type Certificate, makeCertificate } from '../daemon/mail/mail-server.ts'
import { me } from './peer-answers.ts'
import { runHere } from './run-here.ts'

let certificate: Certificate
let panel: Server
let url: string
let home: string
const asked: string[] = []

beforeAll(async () => {
  certificate = await makeCertificate()
  panel = createServer({ cert: certificate.cert, key: certificate.key }, (request, response) => {
    asked.push(`${request.url} ${request.headers.authorization}`)
    response.end(JSON.stringify({ success: true, data: me() }))
  })
  panel.listen(0, '127.0.0.1')
  await once(panel, 'listening')
  url = `https://127.0.0.1:${(panel.address() as AddressInfo).port}` // it listens on TCP
})
afterAll(async () => {
  panel.closeAllConnections()
  panel.close()
  await certificate.remove()
  await rm(home, { recursive: true, force: true })
})
beforeEach(async () => {
  if (home !== undefined) await rm(home, { recursive: true, force: true })
  home = await mkdtemp(join(tmpdir(), 'panel-contexts-'))
})

const run = (args: readonly string[], input = '') => runHere(args, { env: { HOME: home }, input })
const contexts = () => readContexts(join(home, '.config/panel'))

it('a context that cannot be written down is refused by its file', async () => {
  await writeFile(join(home, '.config'), '')
  const refused = await run(['context', 'create', 'a', '--url', url])
  expect(refused).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/\.config\/panel\/cli\.yaml cannot be written: ENOTDIR.*\(FILE_UNREADABLE\)/),
  })
})

describe('a context with certificates of its own', () => {
  it('is signed in to by them, keeps them, and finds them from every folder', async () => {
    const file = join(home, 'ca.pem')
    await copyFile(certificate.file, file)
    const made = await run(['context', 'create', 'a', '--url', url, '--ca-file', relative(process.cwd(), file)])
    expect(made).toMatchObject({ code: 0, stderr: expect.stringContaining('made, and in use') })
    const other = await run(['context', 'create', 'b', '--url', url, '--ca-file', file])
    expect(other.stderr).not.toContain('in use')
    expect(await run(['whoami', '--context', 'b'])).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('try: panel login --context b'),
    })
    const signedIn = await run(['login', '--context', 'b', '--token-stdin'], 'pak_mine\n')
    expect(signedIn, signedIn.stderr).toMatchObject({ code: 0 })
    expect(asked.at(-1)).toBe('/api/auth/me Bearer pak_mine')
    const kept = { url, caFile: file }
    expect(await contexts()).toEqual({
      current: 'b',
      contexts: [
        { name: 'a', ...kept },
        { name: 'b', ...kept },
      ],
    })
    expect(await run(['whoami'])).toMatchObject({ code: 0 })
    // The URL alone means the context in force, with a slash at its end too.
    await run(['login', `${url}/`, '--token-stdin'], 'pak_new\n')
    expect((await contexts()).contexts.map(({ name }) => name)).toEqual(['a', 'b'])
    expect(await readFile(join(home, '.config/panel/credentials.yaml'), 'utf8')).toBe('b:\n  token: pak_new\n')
  })
})

describe('the URL of a panel', () => {
  it.each([
    ['http://eve:secret@127.0.0.1:1', 'no user and no password'],
    ['http://127.0.0.1:1/?token=1', 'more than the address'],
    ['http://127.0.0.1:1//', 'try: http://127.0.0.1:1/\n'],
    ['http://127.0.0.1:1/a//b', 'try: http://127.0.0.1:1/a/b\n'],
    ['http://127.0.0.1:1\\', 'has doubled slashes or backslashes in its path'],
    ['ftp://127.0.0.1', 'is not the URL of a panel: it begins with http:// or https://'],
    ['panel.example.org', 'is not the URL of a panel'],
  ])('is not %s', async (wrong, reason) => {
    for (const args of [
      ['context', 'create', 'x', '--url', wrong],
      ['login', wrong, '--token-stdin'],
      ['whoami', '--url', wrong],
    ]) {
      const ran = await run(args, 'pak_mine')
      expect(ran).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(reason) })
      expect(ran.stderr).not.toContain('secret')
    }
    expect(await contexts()).toEqual({ current: undefined, contexts: [] })
  })
})

describe('files of the command line that are no YAML', () => {
  const write = async (name: string, text: string): Promise<void> => {
    await mkdir(join(home, '.config/panel'), { recursive: true })
    await writeFile(join(home, '.config/panel', name), text, { mode: 0o600 })
  }

  it.each([
    ['a: {token: "pak_hidden\n', 2],
    ['a:\n  token: pak_hidden\n bad: x\n', 3],
    ['a:\n  token: pak_hidden: "pak_hidden"\n', 2],
    ['a: b\n"pak_hidden" pak_hidden\n', 2],
  ])('are named with the line, and no key is shown: %j', async (text, line) => {
    await write('cli.yaml', `current: a\ncontexts:\n  a:\n    url: ${url}\n`)
    await write('credentials.yaml', text)
    const { code, stdout, stderr } = await run(['whoami'])
    expect(stdout + stderr).not.toContain('hidden')
    expect(stderr).toMatch(/credentials\.yaml is not valid YAML: look at line \d \(FILE_UNREADABLE\)\n$/)
    expect(stderr).toContain(`line ${line}`)
    expect(code).toBe(2)
  })

  it('are named with the reason where they hold no key', async () => {
    await write('cli.yaml', 'current: "a\n')
    const { code, stderr } = await run(['whoami'])
    expect(stderr).toMatch(
      /cli\.yaml is not valid YAML: Missing closing "quote at line 2, column 1 \(FILE_UNREADABLE\)\n$/,
    )
    expect(code).toBe(2)
  })

  it('are read, and a key is refused that no request can hold', async () => {
    await write('cli.yaml', `current: a\ncontexts:\n  a:\n    url: ${url}\n`)
    await write('credentials.yaml', 'a:\n  token: "pak_hidden\\n"\n')
    const { code, stderr } = await run(['whoami'])
    expect(stderr).toBe(
      'panel: the key of this context has characters that no key has (NOT_SIGNED_IN)\n  try: panel login\n',
    )
    expect(code).toBe(4)
  })
})
