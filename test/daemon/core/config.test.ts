import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type ConfigFlags, defaultDataDir, readConfig } from '../../../src/daemon/config/config.ts'
import { ConfigError } from '../../../src/daemon/config/config-problems.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-config-'))
})
afterEach(() => rm(folder, { recursive: true }))

async function file(text: string): Promise<string> {
  const path = join(folder, 'panel.yaml')
  await writeFile(path, text)
  return path
}

const read = (flags: ConfigFlags = {}, env: Record<string, string> = {}) => readConfig(flags, { HOME: folder, ...env })

function problemsOf(flags: ConfigFlags, env: Record<string, string> = {}): string[] {
  try {
    read(flags, env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.message
      .split('\n')
      .slice(1)
      .map((line) => line.trim())
  }
  throw new Error('the configuration was accepted')
}

describe('the configuration', () => {
  it('needs nothing at all', () => {
    expect(read()).toMatchObject({
      host: '127.0.0.1',
      port: 7420,
      tls: undefined,
      logLevel: 'info',
      embeddedAgent: false,
    })
    expect(read().dataDir).toBe(join(folder, '.local', 'share', 'panel'))
    expect(defaultDataDir({ HOME: folder, XDG_DATA_HOME: '/x' })).toBe('/x/panel')
  })

  it('takes flags before the environment before the file', async () => {
    const config = await file('http: { listen: ":7001" }\nlog: { level: warn }\ndata: { dir: /from/file }\n')
    const env = { PANEL_HTTP__LISTEN: ':7002', PANEL_LOG__LEVEL: 'error' }
    expect(read({ config })).toMatchObject({ port: 7001, logLevel: 'warn', dataDir: '/from/file' })
    expect(read({ config }, env)).toMatchObject({ port: 7002, logLevel: 'error', dataDir: '/from/file' })
    expect(read({ config, listen: ':7003', dataDir: '/from/flag' }, env)).toMatchObject({
      port: 7003,
      logLevel: 'error',
      dataDir: '/from/flag',
    })
    const logging = { ...env, PANEL_LOG__FORMAT: 'json', PANEL_DATA__DIR: '/from/env' }
    expect(read({ logLevel: 'trace', logFormat: 'pretty', dataDir: '/from/flag' }, logging)).toMatchObject({
      port: 7002,
      logLevel: 'trace',
      logFormat: 'pretty',
      dataDir: '/from/flag',
    })
  })

  it('fixes limits by file or environment', async () => {
    const config = await file('limits: { streamsPerUser: 7, streamsPerServer: 8 }\nconsole: { logMb: 9 }\n')
    const name = 'PANEL_LIMITS__STREAMS_PER_USER'
    expect(read({ config }, { [name]: '3' }).fixed).toEqual({
      'limits.streamsPerUser': { value: 3, source: 'env', name },
      'limits.streamsPerServer': { value: 8, source: 'file', name: 'limits.streamsPerServer' },
      'console.logMb': { value: 9, source: 'file', name: 'console.logMb' },
    })
  })

  it('tells every problem at once', async () => {
    const config = await file(
      'http: { listen: "nowhere:99999", tlsCert: /x }\nlog: { level: loud }\nlimits: { streamsPerUser: 0 }\nmore: 1\n',
    )
    const problems = problemsOf({ config }, { PANEL_CREDENTIAL_KEY_FILE: '/not/there' })
    for (const part of ['log.level', 'limits.streamsPerUser', 'more: there is no', 'PANEL_CREDENTIAL_KEY_FILE']) {
      expect(
        problems.some((problem) => problem.startsWith(part)),
        `${part} in ${problems.join('\n')}`,
      ).toBe(true)
    }
  })

  it('tells problems of values that stand beside each other', () => {
    const problems = problemsOf(
      { listen: 'x' },
      { PANEL_HTTP__TLS_KEY: '/k', PANEL_HTTP__TRUSTED_PROXIES: 'proxy,10.0.0.1' },
    )
    expect(problems).toEqual([
      'http.listen: "x" is not host:port, :port or port',
      'http.tlsCert and http.tlsKey belong together',
      'http.trustedProxies: proxy is neither an address nor a range',
    ])
  })

  it.each(['10.0.0.0/33', '10.0.0.0/0', '10.0.0.0/8.5', '10.0.0.0/8/8', '::/-1', '10.0.0.0/'])(
    'refuses %s as a range of proxies',
    (range) => {
      const env = { PANEL_HTTP__TRUSTED_PROXIES: `10.0.0.1, ${range}` }
      expect(problemsOf({}, env)).toEqual([`http.trustedProxies: ${range} is neither an address nor a range`])
    },
  )

  it('takes a list in a variable with blanks and a comma at its end, and names what is neither true nor false', () => {
    const env = { PANEL_HTTP__TRUSTED_PROXIES: '10.0.0.1, fd00::/8, 10.1.0.0/255.255.0.0,' }
    expect(read({}, env).trustedProxies).toEqual(['10.0.0.1', 'fd00::/8', '10.1.0.0/255.255.0.0'])
    expect(problemsOf({}, { PANEL_AGENT__EMBEDDED: 'yes' })).toEqual([
      'PANEL_AGENT__EMBEDDED (agent.embedded): must be true or false',
    ])
  })

  it('refuses to leave the machine without TLS', () => {
    for (const listen of ['0.0.0.0:1', '[::]:1', '192.0.2.1:1', 'panel.example.org:1']) {
      expect(problemsOf({ listen })[0]).toContain('is not loopback: give http.tlsCert and http.tlsKey')
    }
    for (const listen of ['127.0.0.1:1', '127.9.9.9:1', 'localhost:1', '[::1]:1', ':1', '1'])
      expect(read({ listen }).port).toBe(1)
    expect(read({ listen: '0.0.0.0:1' }, { PANEL_HTTP__TRUSTED_PROXIES: '10.0.0.0/8' }).host).toBe('0.0.0.0')
  })

  it('takes a host that merely looks like loopback for what it is', () => {
    for (const listen of ['127.example.org:1', '127.0.0.1.example.org:1']) {
      expect(problemsOf({ listen })[0]).toContain('is not loopback')
    }
  })

  it('says of each certificate file what is wrong with it, and nothing that is untrue', async () => {
    const listen = '0.0.0.0:1'
    const [tlsCert, tlsKey] = [join(folder, 'tls.crt'), join(folder, 'tls.key')]
    const config = await file(`http: { tlsCert: ${tlsCert}, tlsKey: ${tlsKey} }\n`)
    expect(problemsOf({ config, listen })).toEqual([
      expect.stringMatching(/^http\.tlsCert: ENOENT.*tls\.crt/),
      expect.stringMatching(/^http\.tlsKey: ENOENT.*tls\.key/),
    ])
    await writeFile(tlsCert, 'no certificate')
    await writeFile(tlsKey, 'no key')
    expect(problemsOf({ config, listen })).toEqual([
      expect.stringMatching(/^http\.tlsCert, http\.tlsKey: no certificate/),
    ])
    expect(problemsOf({ listen }, { PANEL_HTTP__TLS_CERT: tlsCert })).toEqual([
      'http.tlsCert and http.tlsKey belong together',
    ])
  })

  it.each([
    ['http: { tlsCrt: x }', 'http.tlsCrt: there is no such setting; did you mean http.tlsCert?'],
    ['htpp: { listen: x }', 'htpp: there is no such setting; did you mean http?'],
    ['http: { dir: /x }', 'http.dir: there is no such setting; did you mean data.dir?'],
    [
      'limits: { streamPerUser: 1 }',
      'limits.streamPerUser: there is no such setting; did you mean limits.streamsPerUser?',
    ],
    ['foo: {}', 'foo: there is no such setting'],
    ['http: { quitesomethingelse: 1 }', 'http.quitesomethingelse: there is no such setting'],
    [`http: { ${'x'.repeat(5000)}: 1 }`, `http.${'x'.repeat(5000)}: there is no such setting`],
  ])('names the setting that may be meant in %.40s', async (text, problem) => {
    expect(problemsOf({ config: await file(text) })).toEqual([problem])
  })

  it('reads secrets from a file, without the end of the line', async () => {
    const path = join(folder, 'secret')
    await writeFile(path, 'the token\n')
    expect(read({}, { PANEL_SETUP_TOKEN_FILE: path }).setupToken).toBe('the token')
    expect(read({}, { PANEL_SETUP_TOKEN_FILE: path, PANEL_SETUP_TOKEN: 'direct' }).setupToken).toBe('direct')
    await writeFile(join(folder, 'setup-token'), 'by systemd\n')
    expect(read({}, { CREDENTIALS_DIRECTORY: folder }).setupToken).toBe('by systemd')
  })

  it('names a credential of systemd that is there and cannot be read', async () => {
    const credentials = join(folder, 'credentials')
    await mkdir(join(credentials, 'credential-key'), { recursive: true })
    expect(problemsOf({}, { CREDENTIALS_DIRECTORY: credentials })).toEqual([
      expect.stringMatching(/^PANEL_CREDENTIAL_KEY: .*is a folder/),
    ])
  })

  it('names variables that mean nothing, and leaves those of others alone', () => {
    const env = { PANEL_HTPP__LISTEN: 'x', PANEL_LISTEN: 'x', PANEL_URL: 'x', PANEL_TOKEN: 'x', OTHER: 'x' }
    expect([...read({}, env).unknownVariables].sort()).toEqual(['PANEL_HTPP__LISTEN', 'PANEL_LISTEN'])
    expect(problemsOf({}, { PANEL_HTTP__LISTNE: 'x' })).toEqual([
      'PANEL_HTTP__LISTNE (http.listne): there is no such setting; did you mean http.listen?',
    ])
  })

  it('embeds the agent where its variable says so, and leaves those of the agent alone', () => {
    expect(read({}, { PANEL_AGENT__EMBEDDED: 'true', PANEL_AGENT__DATA_DIR: '/srv/a' })).toMatchObject({
      embeddedAgent: true,
      unknownVariables: [],
    })
    expect(read({}, { PANEL_AGENT__EMBEDDED: 'false' }).embeddedAgent).toBe(false)
    expect(problemsOf({}, { PANEL_AGENT__EMBEDDED: 'maybe' })[0]).toContain('agent.embedded')
  })

  it('refuses an empty data folder, which would be the current one', async () => {
    expect(problemsOf({ config: await file('data: { dir: "" }') })).toEqual(['data.dir: is empty'])
    expect(problemsOf({}, { PANEL_DATA__DIR: ' ' })).toEqual(['PANEL_DATA__DIR (data.dir): is empty'])
  })

  it('refuses a file that is named and missing, or no YAML', async () => {
    expect(problemsOf({ config: join(folder, 'none.yaml') })[0]).toContain('ENOENT')
    expect(problemsOf({ config: folder })).toEqual([
      `${folder} is a folder, not a file; name the file: ${join(folder, 'panel.yaml')}`,
    ])
    expect(problemsOf({ config: await file('http: [') }).length).toBeGreaterThan(0)
    expect(problemsOf({ config: await file('just text') }).length).toBeGreaterThan(0)
  })
})
