import { createServer } from 'node:http'
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
