import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runPanel } from '../run-panel.ts'

let answer = { status: 200, text: '' }
const server = createServer((_, response) => {
  response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.text)
})
let url = ''

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  url = typeof address === 'object' && address !== null ? `http://127.0.0.1:${address.port}` : ''
})
afterAll(() => new Promise((resolve) => server.close(resolve)))

const ok = (data: unknown): string => JSON.stringify({ success: true, data })

describe('what answers in the place of a panel', () => {
  it.each([
    [
      'a page of a proxy',
      502,
      '<html>502</html>',
      /^panel: The server answered 502 without a panel envelope; is the URL right\?/,
    ],
    ['a page of its own', 200, '<html>welcome</html>', /^panel: The server answered 200 without a panel envelope/],
    [
      'data of another kind',
      200,
      ok({ name: 'x' }),
      /^panel: the answer of the panel is not as expected; do the versions fit\?/,
    ],
    [
      'a row that lacks everything',
      200,
      '{"success":true,"data":[{"__proto__":1}]}',
      / 0\.id: .*\n[\s\S]*try: panel version --check/,
    ],
    [
      'pages that are no numbers',
      200,
      '{"success":true,"data":[],"pagination":{"page":"1"}}',
      /without a panel envelope/,
    ],
  ])('is said to be none: %s', async (_, status, text, said) => {
    answer = { status, text }
    const { code, stdout, stderr } = await runPanel(['servers', 'list', '--retries', '0'], {
      env: { PANEL_URL: url, PANEL_TOKEN: 'pnl_x' },
    })
    expect([code === 0, stdout]).toEqual([false, ''])
    expect(stderr).toMatch(said)
    expect(stderr).not.toMatch(/\n\s+at |TypeError/)
  })
})

describe('a panel that names the file of a download', () => {
  const AT = '2026-01-01T00:00:00.000Z'
  const id = (kind: string): string => `${kind}_01k000000000000000000000aa`
  const backup = (name: string) => ({
    ...{ id: id('bak'), serverId: id('srv'), ownerId: id('srv'), serverName: 'demo', orphaned: false },
    ...{ nodeId: null, nodeName: null, storeId: id('bst'), storeName: 'local', storageMode: 'local', name },
    ...{ kind: 'archive', compression: 'none', label: null, locked: false, status: 'completed', error: null },
    ...{ ignored: [], databases: [], problems: [], problemCount: 0, entries: 1, bytes: 1, storedBytes: 1, sizeMb: 1 },
    ...{ checksum: null, policyId: null, jobId: null, createdBy: null, createdAt: AT, startedAt: AT },
    ...{ completedAt: AT, restoredAt: null, verifiedAt: null, damage: null },
  })
  let folder = ''
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'panel-names-'))
  })
  afterAll(() => rm(folder, { recursive: true }))

  const download = (name: string, ...args: string[]) => {
    answer = { status: 200, text: ok(backup(name)) }
    const command = ['backups', 'download', id('srv'), id('bak'), '--retries', '0', ...args]
    return runPanel(command, { env: { PANEL_URL: url, PANEL_TOKEN: 'pak_x' } })
  }

  it.each([
    () => `${folder}/out`,
    () => relative(process.cwd(), `${folder}/out`),
    () => 'a\u001b[2J',
    () => 'a\nb',
    () => 'a\u202eb',
    () => '\u0000',
  ])('leads nowhere but here', async (name) => {
    for (const more of [[], ['--resume'], ['--compression', 'gzip']]) {
      const { code, stderr } = await download(name(), ...more)
      expect(stderr).toBe(
        'panel: the panel has answered what is no name of a file (OPERATION_FAILED)\n  try: --out <file>\n',
      )
      expect(code).toBe(11)
    }
    expect(await readdir(folder)).toEqual([])
    const out = join(folder, 'chosen')
    expect(await download(name(), '--out', out)).toMatchObject({ code: 0 })
    await rm(out)
  })
})

describe('an answer without an end', () => {
  let taken = 0
  const endless = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    const piece = Buffer.alloc(1024 * 1024, ' ')
    const pour = (): void => {
      while (!response.destroyed && response.write(piece)) taken += piece.length
    }
    response.on('drain', () => {
      taken += piece.length
      pour()
    })
    pour()
  })
  afterAll(() => new Promise((resolve) => endless.close(resolve)))

  it('is not read into memory', async () => {
    await new Promise<void>((resolve) => endless.listen(0, '127.0.0.1', resolve))
    const address = endless.address()
    const port = typeof address === 'object' ? address?.port : undefined
    const env = { PANEL_URL: `http://127.0.0.1:${port}`, PANEL_TOKEN: 'pnl_x' }
    const { code, stdout, stderr } = await runPanel(['servers', 'list'], { env })
    expect(stderr).toMatch(
      /^panel: the answer is longer than 64 MiB, which no answer of a panel is \(OPERATION_FAILED\)/,
    )
    expect([code, stdout]).toEqual([11, ''])
    expect(taken).toBeLessThan(128 * 1024 * 1024)
  })
})

describe('what reaches no panel', () => {
  const ask = (env: Readonly<Record<string, string>>, ...args: string[]) => {
    answer = { status: 200, text: ok({}) }
    return runPanel(['api', '/api/x', ...args], { env: { PANEL_URL: url, PANEL_TOKEN: 'pak_x', ...env } })
  }

  it.each(['pak_x\r', 'pak\nx', 'pak_日'])('is a key with characters that no request can hold: %j', async (token) => {
    const { code, stderr } = await ask({ PANEL_TOKEN: token })
    expect(stderr).toBe(
      'panel: PANEL_TOKEN has characters that no key has (NOT_SIGNED_IN)\n  try: unset PANEL_TOKEN, or give it a key that is valid\n',
    )
    expect(code).toBe(4)
  })

  it.each([` ${url}`, 'http://127.0.0.1:1 ', 'http://127.0.0.1:1\r'])(
    'is an address with blanks around it: %j',
    async (it) => {
      const { code, stderr } = await ask({ PANEL_URL: it })
      expect(stderr).toContain('is not the URL of a panel (USAGE)')
      expect(code).toBe(2)
    },
  )

  it.each(['30d', '99999999999'])('is not a request that may take %s', async (most) => {
    expect(await ask({}, '--request-timeout', most)).toMatchObject({ code: 0, stderr: '' })
  })
})
