import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parse, stringify } from 'yaml'
import { plainYaml } from '../../src/cli/kit/profile/plain-yaml.ts'

const key = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom('url', 'token', 'local', 'a.b', 'x@y', 'x-1', 'constructor') },
  fc.constantFrom('__proto__', 'null', 'True', 'y', '1', '-a', '', '"a"'),
)
const plain = fc.constantFrom(
  'http://127.0.0.1:8080',
  '/run/panel.sock',
  'pnl_1a',
  '2026-01-31T12:00:00.000Z',
  '1000',
  '0',
  'true',
  '{}',
)
const word = fc.oneof(
  { weight: 8, arbitrary: plain },
  fc.constantFrom(
    '0x1f',
    '1e3',
    '~',
    'yes',
    'Null',
    'a:',
    'a: b',
    'a #b',
    '-',
    '.inf',
    '08',
    '1.5',
    'x\t',
    '|',
    '*a',
    '2026-01-31',
  ),
)
const indent = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('', '  ', '    ') },
  fc.constantFrom(' ', '\t', '      '),
)
const line = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(indent, key, word).map(([before, name, value]) => `${before}${name}: ${value}`) },
  { weight: 3, arbitrary: fc.tuple(indent, key).map(([before, name]) => `${before}${name}:`) },
  fc.constantFrom('', '# a', '---', '- a', 'a', '\r'),
)

describe('YAML without its parser', () => {
  it('is what the parser says, or is left to it', () => {
    let taken = 0
    const check = (text: string): void => {
      const read = plainYaml(text)
      if (read === undefined) return
      taken += 1
      expect(read, text).toEqual(parse(text))
    }
    fc.assert(
      fc.property(fc.array(line, { minLength: 1, maxLength: 4 }), (lines) => check(`${lines.join('\n')}\n`)),
      { numRuns: 1500 },
    )
    expect(taken).toBeGreaterThan(50)
  })

  it('takes the files that the command line writes', () => {
    const contexts = {
      current: 'local',
      contexts: {
        local: { url: 'http://127.0.0.1:8080', socket: '/home/me/.local/share/panel/panel.sock', listenerUid: 1000 },
        'games.example': { url: 'https://games.example.org', caFile: '/etc/ssl/ca.pem', insecureHttp: true },
      },
    }
    expect(plainYaml(stringify(contexts))).toEqual(contexts)
    const credentials = {
      local: { token: 'pnl_k3v4n5', keyId: 'key_01k3v4n5w6', expiresAt: '2026-12-31T00:00:00.000Z', madeBy: 'up' },
    }
    expect(plainYaml(stringify(credentials))).toEqual(credentials)
    expect(plainYaml('contexts: {}\n')).toEqual({ contexts: {} })
  })

  it.each([
    '',
    'a',
    'a: 1',
    '# mine\na: 1\n',
    'a: &x 1\n',
    'a:\n',
    'a: "b"\n',
    'a: 1\na: 2\n',
    ' a: 1\n',
    'a:\n    b: 1\n',
    'a: 1\n  b: 2\n',
  ])('leaves %j to the parser', (text) => {
    expect(plainYaml(text)).toBeUndefined()
  })
})
