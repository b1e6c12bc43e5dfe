import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { ConfigFileProblem, MOST_CONFIG_BYTES } from '../../src/agent/config-files/config-file-problem.ts'
import { configText } from '../../src/agent/config-files/config-text.ts'
import { SerialQueue } from '../../src/agent/server/serial-queue.ts'
import { ConfigFile, type ConfigParser } from '../../src/shared/protocol/config-files.ts'
import { DIST } from '../run-panel.ts'

const KNOWN = { SERVER_PORT: '25577', WORD: 'a "b" \\ ü', 'config.docker.interface': '172.18.0.1' }

function changed(parser: ConfigParser, text: string | null, set: unknown[], create = true): string | null {
  return configText(ConfigFile.parse({ path: 'a', parser, create, set }), text, KNOWN)
}

const PORT = '{{server.build.default.port}}'

describe('a configuration file', () => {
  it('of properties keeps its comments, its order and its line ends; absent keys come last', () => {
    const text = '# made by the game\r\nserver-port=1\r\nlong = a\\\r\n   b\r\n! more\r\nmotd: old\r\n'
    const set = [
      { key: 'server-port', value: PORT },
      { key: 'motd', value: '{{WORD}}' },
      { key: 'long', value: 'c', ifValue: 'ab' },
      { key: 'gone', value: 'x', ifValue: 'y' },
      { key: 'a key', value: 'new' },
    ]
    expect(changed('properties', text, set)).toBe(
      '# made by the game\r\nserver-port=25577\r\nlong=c\r\n! more\r\nmotd=a "b" \\\\ \\u00fc\r\na\\ key=new\r\n',
    )
    expect(changed('properties', changed('properties', text, set), set)).toBeNull()
  })

  it('of INI has sections with dots, keys before the first one, and sections that are made', () => {
    const text = '; head\nname = old\n\n[net]\nport=1 \n\n[a.b]\nkey = 2\n'
    const set = [
      { key: 'name', value: 'new' },
      { key: 'net.port', value: PORT },
      { key: 'net.host', value: '0.0.0.0' },
      { key: '[a.b].key', value: '3', ifValue: 'regex:^(\\d)$' },
      { key: 'made.here', value: true },
    ]
    expect(changed('ini', text, set)).toBe(
      '; head\nname = new\n\n[net]\nport=25577\nhost = 0.0.0.0\n\n[a.b]\nkey = 3\n[made]\nhere = true\n',
    )
    expect(() => changed('ini', '', [{ key: 'a', value: 'x\ny' }])).toThrow('cannot hold a value of several lines at a')
  })

  it('of plain lines takes no value of several lines, which would add lines at each start', () => {
    const many = [{ key: 'name', value: 'name={{WORD}}\nadmin=me' }]
    expect(() => changed('file', 'name=old\nport=1\n', many)).toThrow('cannot hold a value of several lines at name')
    expect(changed('file', 'port=1\n', many)).toBeNull()
    const found = [{ key: 'name', value: 'name=$1\rx', ifValue: 'regex:^name=(.*)$' }]
    expect(() => changed('file', 'name=old\n', found)).toThrow('several lines')
  })

  it('of XML, INI and plain lines takes no character that would break it', () => {
    const nul = 'x\0y'
    expect(() => changed('ini', 'a = 1\n', [{ key: 'a', value: nul }])).toThrow('cannot hold the character NUL at a')
    expect(() => changed('ini', '', [{ key: 'a', value: nul }])).toThrow('NUL at a')
    expect(() => changed('file', 'name=old\n', [{ key: 'name', value: nul }])).toThrow('NUL at name')
    const found = [{ key: 'name', value: `name=$1${nul}`, ifValue: 'regex:^name=(.*)$' }]
    expect(() => changed('file', 'name=old\n', found)).toThrow('NUL at name')
    for (const value of [nul, 'a\u001b', '\ud800', '\ufffe', "[name='\0']"]) {
      expect(() => changed('xml', '<a><b>old</b></a>', [{ key: 'a.b', value }])).toThrow(
        'cannot hold a character at a.b that XML does not have',
      )
    }
    expect(changed('xml', '<a><b>old</b></a>', [{ key: 'a.b', value: 'ü\t🎮' }])).toContain('ü\t🎮')
  })

  it('of YAML keeps comments and types; what an expression finds is replaced with its groups', () => {
    const text =
      '# proxy\nlisteners:\n  - query_port: 1 # the port\n    host: 0.0.0.0:1\nservers:\n  lobby:\n    address: localhost:25565\n' +
      '  far:\n    address: 10.0.0.1:1\nonline: true\nid: "7"\n'
    const set = [
      { key: 'listeners[0].query_port', value: PORT },
      { key: 'listeners[0].host', value: `0.0.0.0:${PORT}` },
      {
        key: 'servers.*.address',
        ifValue: 'regex:^(127\\.0\\.0\\.1|localhost)(:\\d{1,5})?$',
        value: '{{config.docker.interface}}$2',
      },
      { key: 'online', value: 'false' },
      { key: 'id', value: '8' },
      { key: 'new.deep', value: '5' },
    ]
    const after = changed('yaml', text, set) ?? ''
    expect(after).toContain('# proxy\n')
    expect(after).toContain('query_port: 25577 # the port')
    expect(parse(after)).toEqual({
      listeners: [{ query_port: 25577, host: '0.0.0.0:25577' }],
      servers: { lobby: { address: '172.18.0.1:25565' }, far: { address: '10.0.0.1:1' } },
      online: false,
      id: '8',
      new: { deep: 5 },
    })
  })

  it('of YAML has keys that are numbers or truths found by their texts and by *', () => {
    const text = 'servers:\n  25565:\n    address: a\n  lobby:\n    address: b\ntrue: old\n'
    const set = [
      { key: 'servers.*.address', value: 'c' },
      { key: 'servers.25565.motd', value: 'd' },
      { key: 'true', value: 'new' },
    ]
    expect(changed('yaml', text, set)).toBe(
      'servers:\n  25565:\n    address: c\n    motd: d\n  lobby:\n    address: c\ntrue: new\n',
    )
  })

  it.each([
    ['---\n', '---\nm:\n  a: 9\n'],
    ['# theirs', '# theirs\nm:\n  a: 9\n'],
    ['b: 1\nm:\nz: 2\n', 'b: 1\nm:\n  a: 9\nz: 2\n'],
    ['m: null\n', 'm:\n  a: 9\n'],
  ])('of YAML is filled where nothing stands: %j', (text, after) => {
    expect(changed('yaml', text, [{ key: 'm.a', value: '9' }])).toBe(after)
  })

  it('of YAML keeps a key behind which nothing stands where nothing is replaced', () => {
    const text = 'servers:\n  lobby:\n  far:\n    address: a\n'
    const set = [{ key: 'servers.*.address', value: 'b', ifValue: 'a' }]
    expect(changed('yaml', text, set)).toBe('servers:\n  lobby:\n  far:\n    address: b\n')
  })

  it('of JSON keeps order, indentation and types', () => {
    const text = '{\n\t"b": [{"port": 1}],\n\t"a": "1",\n\t"on": true\n}\n'
    const set = [
      { key: 'b[0].port', value: PORT },
      { key: 'b[1].port', value: 2 },
      { key: 'a', value: '2' },
      { key: 'on', value: false },
      { key: 'c.d', value: null },
      { key: '*.port', value: 3, ifValue: '1' },
    ]
    expect(changed('json', '{"b":[{"port":1}]}', [{ key: 'b.0.port', value: 2 }])).toBe('{"b":[{"port":2}]}')
    const after = changed('json', text, set.slice(0, 5)) ?? ''
    expect(after).toMatch(/^\{\n\t"b"/)
    expect(JSON.parse(after)).toEqual({ b: [{ port: 25577 }, { port: 2 }], a: '2', on: false, c: { d: null } })
    expect(changed('json', null, [{ key: 'x', value: PORT }])).toBe('{\n  "x": 25577\n}\n')
  })

  it('of TOML is changed where its values stand, and numbers keep their kind', () => {
    const text = '# top\nname = "old" # why\nratio = 1.0\n\n[server]\nport = 1\n"odd key" = [1, 2]\n\n[[list]]\nx = 1\n'
    const set = [
      { key: 'name', value: '{{WORD}}' },
      { key: 'ratio', value: '2' },
      { key: 'server.port', value: PORT },
      { key: 'server.public', value: true },
      { key: 'server.odd key[1]', value: 9 },
      { key: 'list[0].x', value: '3' },
      { key: 'made.by', value: 'us' },
      { key: 'top', value: 1 },
    ]
    expect(changed('toml', text, set)).toBe(
      '# top\nname = "a \\"b\\" \\\\ ü" # why\nratio = 2.0\ntop = 1\n\n[server]\nport = 25577\n"odd key" = [1, 9]\npublic = true\n\n' +
        '[[list]]\nx = 3\n[made]\nby = "us"\n',
    )
  })

  it('of XML gets texts and attributes, and keeps comments', () => {
    const text = '<?xml version="1.0"?>\n<conf><!-- why --><port a="1">1</port><map><n>a</n><n>b</n></map></conf>'
    const set = [
      { key: 'conf.port', value: PORT },
      { key: 'conf.map.n', value: 'c<d', ifValue: 'b' },
      { key: 'conf.port', value: "[a='2']" },
      { key: 'conf.new.deep', value: 'x' },
    ]
    const after = changed('xml', text, set)
    expect(after).toContain('<conf><!-- why --><port a="2">25577</port><map><n>a</n><n>c&lt;d</n></map>')
    expect(after).toContain('<new><deep>x</deep></new></conf>')
  })

  it('of lines has those replaced whole that begin with a key', () => {
    const text = 'port=1\nportal=2\nother=3'
    expect(changed('file', text, [{ key: 'port=', value: `port=${PORT}` }])).toBe('port=25577\nportal=2\nother=3')
    expect(changed('file', text, [{ key: 'none', value: 'x' }])).toBeNull()
  })

  it('is not made where the template says so, and not written where nothing changes', () => {
    expect(changed('yaml', null, [{ key: 'a', value: 1 }], false)).toBeNull()
    expect(changed('yaml', null, [{ key: 'a', value: 1 }])).toContain('a: 1')
    expect(changed('json', '{"a":1}', [{ key: 'a', value: '1' }])).toBeNull()
    expect(changed('toml', 'a = 1\n', [{ key: 'a', value: '1' }])).toBeNull()
  })

  it.each([
    ['json', '{"a":', 'a', 'is not valid JSON'],
    ['json', '['.repeat(1000), 'a', 'nested too deep'],
    ['json', '{"a":1}', 'a.b', 'single value where a.b needs'],
    ['json', '{}', '__proto__.x', 'has no place'],
    ['json', '{"a":[]}', 'a[5]', 'has no place'],
    ['json', '{"a":[1]}', 'a.-1', 'has no place'],
    ['yaml', 'a: [', 'a', 'is not valid YAML'],
    ['yaml', 'a: 1\n---\nb: 2', 'a', 'several YAML documents'],
    ['yaml', 'a: 1', 'a.b', 'single value where a.b needs'],
    ['yaml', 'a: &x {b: 1}\nc: *x', 'c.b', 'an alias where c.b needs'],
    ['yaml', '- 1', 'a.b', 'has no place a.b'],
    ['yaml', 'a: [1]', 'a[5].b', 'has no place a[5].b'],
    ['yaml', 'text', 'a', 'single value where a needs'],
    ['toml', 'a = ', 'a', 'is not valid TOML'],
    ['toml', 'a.b = 1', 'a.c', 'has no room for more keys of a'],
    ['toml', '[[a]]\nb = 1', 'a.c', 'has no room for more keys of a'],
    ['toml', 'a = 1', 'a.b', 'a is no table'],
    ['xml', '<a><b></a>', 'a.b', 'is not valid XML'],
    ['xml', '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', 'a', 'document type'],
    ['xml', '<a/>', 'b.c', 'outermost element is a'],
  ] as const)('that its parser cannot follow is refused with the reason: %s %s', (parser, text, key, reason) => {
    expect(() => changed(parser, text, [{ key, value: 'x' }])).toThrow(ConfigFileProblem)
    expect(() => changed(parser, text, [{ key, value: 'x' }])).toThrow(reason)
  })

  it('of more than 64 MiB is not read', () => {
    expect(() => changed('file', 'x'.repeat(MOST_CONFIG_BYTES + 1), [])).toThrow('larger than 64 MiB')
  })
})

describe('a hostile file', () => {
  const half = (text: string, count: number): string => text.repeat(count)

  it.each([
    ['yaml', 'lists in lists', half('- ', 60_000), 'nested too deep'],
    ['yaml', 'brackets', `a: ${half('[', 60_000)}`, 'nested too deep'],
    ['yaml', 'a key twice', 'a: 1\na: 2', 'the key a twice'],
    ['yaml', 'many keys twice', half('abc: 1\n', 15_000), 'the key abc twice'],
    ['json', 'objects in objects', half('{"a":', 20_000), 'nested too deep'],
    ['toml', 'brackets', `a = ${half('[', 20_000)}${half(']', 20_000)}`, 'nested too deep'],
    ['xml', 'elements in elements', half('<a>', 20_000), 'nested too deep'],
    ['xml', 'entities', '<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]><a>&d;</a>', 'document type'],
    ['xml', 'a file of the node', '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', 'document type'],
  ] as const)('of %s is refused before it costs anything: %s', (parser, _what, text, reason) => {
    const before = process.cpuUsage()
    expect(() => changed(parser, text, [{ key: 'a', value: 1 }])).toThrow(reason)
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(2000)
  })

  it('with aliases for more than fits into any memory is changed where it says so, and they stay aliases', () => {
    const lines = Array.from(
      { length: 30 },
      (_, at) => `b${at}: &b${at} [${Array(9).fill(at === 0 ? 'x' : `*b${at - 1}`)}]`,
    )
    const after = changed('yaml', lines.join('\n'), [
      { key: 'b29', value: 'now', ifValue: 'regex:x' },
      { key: 'b29[0]', value: 'now', ifValue: 'x' },
      { key: 'port', value: PORT },
    ])
    expect(after).toContain('port: 25577')
    expect(after?.length).toBeLessThan(3000)
  })

  it('has the time of its expressions bounded by a thread, and those of others wait for none of it', {
    tags: ['long'],
    timeout: 60_000,
  }, async () => {
    const root = await mkdtemp(join(tmpdir(), 'panel-config-'))
    await writeFile(join(root, 'a.txt'), `${'x'.repeat(15_000)}\n`)
    const set = Array.from({ length: 40 }, () => ({ key: 'x', value: '1', ifValue: 'regex:(?:x?.){150}[yz]' }))
    const file = ConfigFile.parse({ path: 'a.txt', parser: 'file', set })
    let waited = 0
    const timer = setInterval(() => waited++, 5)
    const threads = new SerialQueue()
    // As it was built: its thread is a file of its own.
    const { updateConfigFiles } = await import(join(DIST, 'src/agent/config-files/update.js'))
    const begun = performance.now()
    await updateConfigFiles(root, [file], { known: {}, roomBytes: 1e9, nowMs: 0, threads }).catch((error: unknown) => {
      expect(String(error)).toContain('takes too long')
    })
    clearInterval(timer)
    expect(waited).toBeGreaterThan((performance.now() - begun) / 50)
    expect(await readFile(join(root, 'a.txt'), 'utf8')).toHaveLength(15_001)
    await rm(root, { recursive: true })
  })
})
