import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { configText } from '../../src/agent/config-files/config-text.ts'
import { serverEnvironment, startupCommand } from '../../src/agent/server/environment.ts'
import { readDocument } from '../../src/shared/templates/document.ts'
import { importEgg } from '../../src/shared/templates/egg-import.ts'
import { gameSpec } from '../agent/agent-stage.ts'
import { skippedUnless } from '../skips.ts'
import { ALL_EGGS, HAS_OTHERS } from './egg-files.ts'
import { type GameShell, openGameShell } from './game-shell.ts'

// What the eggs' own panels make of real eggs, written by hand: nothing here goes through the code of ours but what is tested.

let shell: GameShell
beforeAll(() => {
  shell = openGameShell(['java', 'srcds_run', 'RustDedicated', 'ts3server'])
})
afterAll(() => shell.close())

const ports = [{ ip: '10.1.2.3', port: 27_015, protocol: 'both' as const, primary: true }]
const templateOf = (name: string) => {
  const text = ALL_EGGS.find((egg) => egg.name === name)?.text ?? ''
  return importEgg(readDocument(text).value).template
}

/** The arguments of the game, as bash gives them to it, for these values over the defaults of the egg. */
function gameOf(name: string, values: Readonly<Record<string, string>>): string[] {
  const template = templateOf(name)
  const defaults = Object.fromEntries(template.variables.map((one) => [one.name, one.default]))
  for (const known of Object.keys(values)) expect(Object.keys(defaults), known).toContain(known)
  const spec = gameSpec('srv_egg', 1, { startup: template.startup, env: { ...defaults, ...values }, ports })
  return shell.argumentsOf(startupCommand(spec), serverEnvironment(spec, shell.dir))
}

/** Words of a line without quotes. */
const words = (line: string): string[] => line.split(' ').filter((word) => word !== '')

type Case = readonly [egg: string, values: Readonly<Record<string, string>>, expected: readonly string[]]

const JAVA = '-Xms128M -XX:MaxRAMPercentage=95.0'
const RUST = (level: readonly string[], more: readonly string[]): string[] => [
  ...words(
    '-batchmode +server.port 27015 +server.queryport 27017 +server.identity rust +rcon.port 28016 +rcon.web true',
  ),
  ...['+server.hostname', 'The "best" server; really', '+server.level', 'Procedural Map', '+server.description'],
  ...[
    'Two  blanks, $HOME and *',
    '+server.url',
    'http://pterodactyl.io',
    '+server.headerimage',
    '',
    '+server.logoimage',
    '',
  ],
  ...words('+server.maxplayers 40 +rcon.password s3cret.x +server.saveinterval 60 +app.port 28082'),
  ...level,
  ...more,
]
const RUST_VALUES = {
  SERVER_HOSTNAME: 'The "best" server; really',
  DESCRIPTION: 'Two  blanks, $HOME and *',
  RCON_PASS: 's3cret.x',
}

const LINES: readonly Case[] = [
  ['egg-bungeecord.json', { SERVER_JARFILE: 'proxy.jar' }, words(`${JAVA} -jar proxy.jar`)],
  ['pelican-egg-bungeecord.yaml', { SERVER_JARFILE: 'proxy.jar' }, words(`${JAVA} -jar proxy.jar`)],
  ['egg-paper.json', {}, words(`${JAVA} -Dterminal.jline=false -Dterminal.ansi=true -jar server.jar`)],
  ['egg-sponge--sponge-vanilla.json', { SERVER_JARFILE: 'sponge.jar' }, words(`${JAVA} -jar sponge.jar`)],
  ['egg-vanilla-minecraft.json', {}, words(`${JAVA} -jar server.jar`)],
  [
    'egg-custom-source-engine-game.json',
    { SRCDS_GAME: 'cstrike', SRCDS_MAP: 'de_dust2' },
    words('-game cstrike -console -port 27015 +map de_dust2 +ip 0.0.0.0 -strictportbind -norestart'),
  ],
  [
    'egg-insurgency.json',
    {},
    words('-game insurgency -console -port 27015 +map sinjar +ip 0.0.0.0 -strictportbind -norestart'),
  ],
  [
    'egg-team-fortress2.json',
    { STEAM_ACC: '0123456789ABCDEF0123456789ABCDEF' },
    words(
      '-game tf -console -port 27015 +map cp_dustbowl +ip 0.0.0.0 -strictportbind -norestart ' +
        '+sv_setsteamaccount 0123456789ABCDEF0123456789ABCDEF',
    ),
  ],
  // Empty values vanish where the egg leaves them unquoted; what is printed comes last.
  [
    'egg-garrys-mod.json',
    {},
    words(
      '-game garrysmod -console -port 27015 +ip 0.0.0.0 +host_workshop_collection +map gm_flatgrass +gamemode sandbox ' +
        '-strictportbind -norestart +sv_setsteamaccount +maxplayers 32 -tickrate 22 -disableluarefresh',
    ),
  ],
  [
    'egg-garrys-mod.json',
    { LUA_REFRESH: '1', WORKSHOP_ID: '157384458', STEAM_ACC: 'ABC', GAMEMODE: 'terrortown' },
    words(
      '-game garrysmod -console -port 27015 +ip 0.0.0.0 +host_workshop_collection 157384458 +map gm_flatgrass ' +
        '+gamemode terrortown -strictportbind -norestart +sv_setsteamaccount ABC +maxplayers 32 -tickrate 22',
    ),
  ],
  [
    'egg-teamspeak3-server.json',
    { SERVERADMIN_PASSWORD: 'top' },
    words(
      'default_voice_port=27015 query_port=10011 filetransfer_ip=0.0.0.0 filetransfer_port=30033 query_http_port=10080 ' +
        'query_ssh_port=10022 query_protocols=raw,http,ssh serveradmin_password=top license_accepted=1',
    ),
  ],
  [
    'egg-rust.json',
    { ...RUST_VALUES, WORLD_SEED: '12345' },
    RUST(words('+server.worldsize 3000 +server.seed 12345'), []),
  ],
  [
    'egg-rust.json',
    { ...RUST_VALUES, MAP_URL: 'https://maps.example/a?b=c', ADDITIONAL_ARGS: '+fps.limit 60  -nolog' },
    RUST(words('+server.levelurl https://maps.example/a?b=c'), words('+fps.limit 60 -nolog')),
  ],
]

const MINECRAFT = ['egg-paper.json', 'egg-sponge--sponge-vanilla.json', 'egg-vanilla-minecraft.json'] as const
const PROXIES = ['egg-bungeecord.json', 'pelican-egg-bungeecord.yaml'] as const

/** What an agent knows of such a server and of its node. */
const KNOWN = {
  SERVER_PORT: '27015',
  SERVER_IP: '10.1.2.3',
  SERVER_MEMORY: '2048',
  P_SERVER_UUID: '0193d5a0-0000-7000-8000-000000000001',
  NAME: 'Steve $1',
  'config.docker.interface': '172.18.0.1',
  'config.docker.network.interface': '172.18.0.1',
}

/** A file of the egg after a start; `before`: what the game has written, `null` for nothing yet. */
function fileOf(egg: string, path: string, before: string | null): string | null {
  const file = templateOf(egg).configFiles.find((one) => one.path === path)
  if (file === undefined) throw new Error(`${egg} has no ${path}`)
  return configText(file, before, KNOWN)
}

describe.skipIf(!HAS_OTHERS)(`a real egg${skippedUnless(HAS_OTHERS, 'real eggs beside the repository')}`, () => {
  it('of all that there are has its line and its files here', () => {
    const others = ALL_EGGS.filter(({ name }) => /^(?:pelican-)?egg-/.test(name)).map(({ name }) => name)
    expect([...new Set(LINES.map(([name]) => name))].sort()).toEqual(others)
    const withFiles = others.filter((name) => templateOf(name).configFiles.length > 0)
    expect(withFiles).toEqual([...MINECRAFT, ...PROXIES].sort())
    for (const name of withFiles) expect(templateOf(name).configFiles).toHaveLength(1)
  })

  it.each(LINES)('gives its game the arguments of its own panel: %s %j', (egg, values, expected) => {
    expect(gameOf(egg, values)).toEqual(expected)
  })

  it.each(MINECRAFT)('writes server.properties as its own panel does: %s', (egg) => {
    const made = fileOf(egg, 'server.properties', null)
    expect(made).toBe('server-ip=0.0.0.0\nserver-port=27015\nquery.port=27015\n')
    const text =
      '#Minecraft server properties\n#Mon Jan 01 00:00:00 UTC 2026\nquery.port=25565\nmotd=A \\u00a7aServer\nserver-ip=\nserver-port=25565\n' +
      'level-name=world\n'
    expect(fileOf(egg, 'server.properties', text)).toBe(
      '#Minecraft server properties\n#Mon Jan 01 00:00:00 UTC 2026\nquery.port=27015\nmotd=A \\u00a7aServer\nserver-ip=0.0.0.0\n' +
        'server-port=27015\nlevel-name=world\n',
    )
    expect(fileOf(egg, 'server.properties', made)).toBeNull()
  })

  it.each(PROXIES)(
    'writes config.yml as its own panel does, with the servers of the node found by an expression: %s',
    (egg) => {
      // A proxy that has never run: the listener is made, and there are no servers whose address could be replaced.
      expect(fileOf(egg, 'config.yml', null)).toBe('listeners:\n  - query_port: 27015\n    host: 0.0.0.0:27015\n')
      const text = [
        'listeners:',
        '- query_port: 25577',
        '  motd: "&1Another proxy"',
        '  host: 0.0.0.0:25577',
        '  query_enabled: false',
        'remote_ping_cache: -1',
        'servers:',
        '  lobby:',
        '    address: localhost:25565',
        '    restricted: false',
        '  local:',
        '    address: 127.0.0.1',
        '  far:',
        '    address: 10.9.8.7:25565',
        '  odd:',
        '    address: localhost:2556500',
        '  named:',
        '    address: localhost.example:25565',
        "stats: 'a-b'",
        '',
      ].join('\n')
      const after = text
        .replace('query_port: 25577', 'query_port: 27015')
        .replace('host: 0.0.0.0:25577', 'host: 0.0.0.0:27015')
        .replace('address: localhost:25565\n', 'address: 172.18.0.1:25565\n')
        .replace('address: 127.0.0.1\n', 'address: 172.18.0.1\n')
        .replace(/^- /m, '  - ')
        .replace(/^ {2}(motd|host: 0|query_e)/gm, '    $1')
      expect(fileOf(egg, 'config.yml', text)).toBe(after)
    },
  )
})

/** An egg with one configuration file, as its panel exports it. */
function written(
  parser: string,
  find: unknown,
  before: string | null,
  more: Record<string, unknown> = {},
): string | null {
  const file = { parser, find, ...more }
  const egg = {
    meta: { version: 'PTDL_v2', update_url: null },
    name: 'Files',
    docker_images: { only: 'registry.example/game:1' },
    startup: './game',
    config: { files: JSON.stringify({ 'conf/game.cfg': file }), startup: '{}', logs: '{}', stop: 'stop' },
    scripts: { installation: { script: '', container: '', entrypoint: 'sh' } },
    variables: [{ name: 'Name', env_variable: 'NAME', default_value: '', rules: 'nullable|string' }],
  }
  const [made] = importEgg(egg).template.configFiles
  if (made === undefined) throw new Error('the egg has no file')
  return configText(made, before, KNOWN)
}

describe('a configuration file of an egg', () => {
  it.each([
    ['{{server.build.default.port}}', '27015'],
    ['{{server.build.default.ip}}', '10.1.2.3'],
    ['{{server.build.memory}}', '2048'],
    ['{{server.build.env.NAME}}', 'Steve $1'],
    ['{{env.NAME}}', 'Steve $1'],
    ['{{server.allocations.default.port}}', '27015'],
    ['{{server.allocations.default.ip}}', '10.1.2.3'],
    ['{{server.build.memory_limit}}', '2048'],
    ['{{server.environment.NAME}}', 'Steve $1'],
    ['{{env.SERVER_PORT}}', '27015'],
    ['{{env.SERVER_IP}}', '10.1.2.3'],
    ['{{env.SERVER_MEMORY}}', '2048'],
    ['{{config.docker.interface}}', '172.18.0.1'],
    ['{{config.docker.network.interface}}', '172.18.0.1'],
    ['{{ server.build.default.port }}', '27015'],
    ['{{config.api.token}}', ''],
    ['{{server.build.env.MISSING}}', ''],
    ['a{{env.NAME}}b{{env.NAME}}', 'aSteve $1bSteve $1'],
    ['{{env.NAME', '{{env.NAME'],
  ])('knows the placeholder %s', (placeholder, value) => {
    expect(written('file', { key: `key=${placeholder}` }, 'key=old\nother=1\n')).toBe(`key=${value}\nother=1\n`)
  })

  it('of lines has each that begins with the key replaced whole, and gets none that is not there', () => {
    const find = { 'Port ': 'Port {{server.build.default.port}}', Name: 'Name {{env.NAME}}', Absent: 'Absent 1' }
    const text = '# Port 1\nPort 25565 # theirs\nPortal 2\nName a\nNames b\n  Port 1\n'
    const after = '# Port 1\nPort 27015\nPortal 2\nName Steve $1\nName Steve $1\n  Port 1\n'
    expect(written('file', find, text)).toBe(after)
    // Keys are looked at one after the other, at what the one before has made of the line.
    expect(written('file', { a: 'b=1', b: 'c=2' }, 'a=0\n')).toBe('c=2\n')
  })

  it('of properties has its keys set or added, what is not ASCII escaped, and a present value compared whole', () => {
    const find = { port: 27015, motd: 'Grüße', secure: true, empty: null, mode: { easy: 'hard', peaceful: 'easy' } }
    const text = '#head\nmotd=old\nmode=easy\n'
    const after = '#head\nmotd=Gr\\u00fc\\u00dfe\nmode=hard\nport=27015\nsecure=true\nempty=\n'
    expect(written('properties', find, text)).toBe(after)
    expect(written('properties', { mode: { eas: 'hard' } }, text)).toBeNull()
  })

  it('of INI has its section before the first dot, brackets keep dots, and what is absent is made', () => {
    const find = {
      'net.port.udp': '{{server.build.default.port}}',
      '[/Script/Engine.Game].Name': '{{env.NAME}}',
      'new.key': 1,
    }
    const text = '[net]\nport.udp=1\n\n[/Script/Engine.Game]\nName=a\n'
    const after = '[net]\nport.udp=27015\n\n[/Script/Engine.Game]\nName=Steve $1\n[new]\nkey = 1\n'
    expect(written('ini', find, text)).toBe(after)
  })

  const TREE = {
    a: [
      { b: 1, n: 'x' },
      { b: 2, n: 'y' },
    ],
    on: true,
    text: 'yes',
    m: { p: { q: 'old' }, r: { q: 'new' } },
  }

  it.each(['json', 'yaml', 'yml'])('of %s keeps types; paths go into lists and by * over children', (parser) => {
    const find = {
      'a[0].b': '{{server.build.default.port}}',
      'a[1].n': '007',
      on: false,
      text: 'true',
      'm.*.q': { old: '{{env.NAME}}' },
      'new.deep.port': '{{server.build.default.port}}',
      'new.float': '1.5',
      'new.flag': true,
      'new.none': null,
      'none.*.x': '1',
    }
    const after = written(parser, find, JSON.stringify(TREE, null, 2))
    expect(parse(after ?? '')).toEqual({
      a: [
        { b: 27_015, n: 'x' },
        { b: 2, n: '007' },
      ],
      on: false,
      text: 'true',
      m: { p: { q: 'Steve $1' }, r: { q: 'new' } },
      new: { deep: { port: 27_015 }, float: '1.5', flag: true, none: null },
    })
  })

  it.each([
    ['regex:^(a)(b)?', '$2-$1', 'ab=x', 'b-a=x'],
    ['regex:^(a)(b)?', '\u0024{2}0\u0024{1}', 'ab=x', 'b0a=x'],
    ['regex:^(a)(b)?', '$2$1', 'a=x', 'a=x'],
    ['regex:^c', 'd', 'ab=x', 'ab=x'],
    ['regex:x', 'y', 'xx-x', 'yy-y'],
    ['regex:=.*$', '=$$5 {{env.NAME}}', 'ab=x', 'ab=$5 Steve $1'],
  ])('has what %s finds replaced by %s', (ifValue, value, before, after) => {
    expect(JSON.parse(written('json', { a: { [ifValue]: value } }, JSON.stringify({ a: before })) ?? '{}')).toEqual(
      after === before ? {} : { a: after },
    )
  })

  it('of XML has elements by their path, attributes, all children by *, and what is absent made', () => {
    const find = {
      'Server.Port': '{{server.build.default.port}}',
      'Server.Name': "[text='{{env.NAME}}']",
      'Server.Maps.*': { old: 'new' },
      'Server.Made.Deep': true,
    }
    const text = '<Server><Port>1</Port><Name text="a"/><Maps><M>old</M><N>keep</N></Maps></Server>'
    expect(written('xml', find, text)).toBe(
      '<Server><Port>27015</Port><Name text="Steve $1"/><Maps><M>new</M><N>keep</N></Maps><Made><Deep>true</Deep></Made></Server>',
    )
  })

  it('of TOML has its values set where they stand', () => {
    const find = {
      'net.port': '{{server.build.default.port}}',
      'net.name': '{{env.NAME}}',
      'net.rate': 2,
      'net.on': true,
    }
    const text = '[net]\nport = 1\nname = "a" # why\nrate = 1.5\n'
    expect(written('toml', find, text)).toBe('[net]\nport = 27015\nname = "Steve $1" # why\nrate = 2.0\non = true\n')
  })

  it('is made unless the egg says otherwise', () => {
    expect(written('json', { a: 1 }, null)).toBe('{\n  "a": 1\n}\n')
    expect(written('json', { a: 1 }, null, { create_file: false })).toBeNull()
  })
})
