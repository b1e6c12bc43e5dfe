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
