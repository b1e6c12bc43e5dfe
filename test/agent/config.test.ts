import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { unknownVariables } from '../../src/agent/config.ts'
import { ConfigError, enroll, readConfig, readNodeFile } from '../../src/agent/main.ts'
import { folderHolder, lockFolder } from '../../src/shared/platform/folder-lock.ts'

let home: string

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'panel-config-'))
})

afterEach(async () => {
  await rm(home, { recursive: true, force: true })
})

async function writeYaml(text: string): Promise<void> {
  await mkdir(join(home, '.config', 'panel'), { recursive: true })
  await writeFile(join(home, '.config', 'panel', 'agent.yaml'), text)
}

describe('the configuration of an agent', () => {
  it('needs nothing: HOME alone decides the folders', async () => {
    const config = await readConfig({ HOME: home })
    expect(config).toMatchObject({
      dataDir: join(home, '.local/share/panel-agent'),
      allowInsecure: false,
      logLevel: 'info',
    })
    const xdg = await readConfig({ HOME: home, XDG_DATA_HOME: '/data' })
    expect(xdg.dataDir).toBe('/data/panel-agent')
  })

  it('takes the flag before the environment and the environment before the file', async () => {
    await writeYaml('agent:\n  dataDir: /from/file\ndaemon:\n  url: https://file.example\nlog:\n  level: warn\n')
    const env = { HOME: home, PANEL_DAEMON__URL: 'https://env.example', PANEL_LOG__LEVEL: 'error' }
    const config = await readConfig(env, { logLevel: 'debug' })
    expect(config).toMatchObject({ dataDir: '/from/file', url: 'https://env.example', logLevel: 'debug' })
  })

  it('says where files may be fetched from, and refuses what are no ranges and ports', async () => {
    await writeYaml('pull:\n  allowedPorts: [9000, 8000-8999]\n')
    expect((await readConfig({ HOME: home, PANEL_PULL__ALLOWED_RANGES: '10.0.0.0/8, fd00::/8' })).pull).toEqual({
      allowedRanges: ['10.0.0.0/8', 'fd00::/8'],
      allowedPorts: ['9000', '8000-8999'],
    })
    for (const ports of ['0', '65536', '9-8', 'http', '1-', '1-2-3']) {
      const env = { HOME: home, PANEL_PULL__ALLOWED_PORTS: ports }
      await expect(readConfig(env), ports).rejects.toThrow('pull.allowedPorts')
    }
  })

  it('says from where servers may be moved', async () => {
    await writeYaml('migration:\n  roots: [/srv/old]\n')
    expect((await readConfig({ HOME: home })).migration).toEqual({ roots: ['/srv/old'] })
    const two = { HOME: home, PANEL_MIGRATION__ROOTS: '/srv/old, /mnt/old' }
    expect((await readConfig(two)).migration).toEqual({ roots: ['/srv/old', '/mnt/old'] })
    for (const roots of ['old', '/srv/../etc']) {
      const env = { HOME: home, PANEL_MIGRATION__ROOTS: roots }
      await expect(readConfig(env), roots).rejects.toThrow('migration.roots')
    }
  })

  it('knows where the container engine is, and the accounts at registries', async () => {
    await writeYaml(
      'docker:\n  network: games\n  registries:\n    ghcr.io: { username: robot, passwordFile: /etc/panel/ghcr }\n',
    )
    const { docker } = await readConfig({ HOME: home, PANEL_DOCKER__SOCKET: '/run/engine.sock' })
    expect(docker).toEqual({
      sockets: ['/run/engine.sock'],
      network: 'games',
      registries: { 'ghcr.io': { username: 'robot', passwordFile: '/etc/panel/ghcr' } },
    })
    await writeYaml(
      'docker:\n  socket: engine.sock\n  network: "--net"\n  registries: { "a/b": { username: x, passwordFile: y } }\n',
    )
    const error = await readConfig({ HOME: home }).catch((thrown: unknown) => thrown)
    const problems = error instanceof ConfigError ? error.problems.join('\n') : ''
    for (const name of ['docker.socket', 'docker.network', 'docker.registries']) expect(problems).toContain(name)
  })

  it('lists every problem at once', async () => {
    await writeYaml('daemon:\n  url: http://panel.example\n  colour: red\nlog:\n  level: loud\n')
    const error = await readConfig({ HOME: home }).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(ConfigError)
    if (!(error instanceof ConfigError)) return
    expect(error.problems.join('\n')).toContain('colour')
    expect(error.problems.join('\n')).toContain('log.level')
    await expect(readConfig({ HOME: home, PANEL_LOG__LEVEL: 'info' })).rejects.toThrow('colour')
    await writeYaml('daemon:\n  ur: https://panel.example\nagnet: {}\n')
    const slips = await readConfig({ HOME: home }).catch((thrown: unknown) => thrown)
    expect(slips instanceof ConfigError ? slips.problems.toSorted() : slips).toEqual([
      'agnet: there is no such setting; did you mean agent?',
      'daemon.ur: there is no such setting; did you mean daemon.url?',
    ])
  })

  it('tells of variables that mean nothing to agent and daemon, and of no others', () => {
    const own = ['PANEL_AGENT__DATA_DIR', 'PANEL_DAEMON__CA', 'PANEL_LOG__LEVEL']
    const daemons = ['PANEL_HTTP__LISTEN', 'PANEL_DATA__DIR', 'PANEL_LOG__FORMAT', 'PANEL_AGENT__EMBEDDED']
    const limits = ['PANEL_CONSOLE__LOG_MB', 'PANEL_LIMITS__REQUESTS_PER_MINUTE']
    const slips = ['PANEL_AGENT__DATADIR', 'PANEL_LOGS__LEVEL', 'PANEL_DAEMON__URI']
    const all = [...own, ...daemons, ...limits, ...slips]
    expect(unknownVariables(Object.fromEntries(all.map((name) => [name, 'x'])))).toEqual(slips)
  })

  it('refuses plain http to another machine unless that is allowed', async () => {
    await expect(readConfig({ HOME: home }, { url: 'http://panel.example' })).rejects.toThrow('https://')
    expect((await readConfig({ HOME: home }, { url: 'http://panel.example', allowInsecure: true })).url).toBe(
      'http://panel.example',
    )
    expect((await readConfig({ HOME: home }, { url: 'http://127.0.0.1:7420' })).url).toBe('http://127.0.0.1:7420')
  })
})

describe('the enrolment', () => {
  it('redeems the token in the body and writes credentials that only the owner may read', async () => {
    const seen: string[] = []
    const server = createServer((request, response) => {
      let body = ''
      request.on('data', (chunk: Buffer) => {
        body += chunk.toString()
      })
      request.on('end', () => {
        seen.push(`${request.method} ${request.url} ${body}`)
        const good = JSON.parse(body).deploymentToken === 'good'
        response.statusCode = good ? 201 : 401
        response.end(
          JSON.stringify(
            good
              ? { success: true, data: { nodeId: 'node_1', nodeName: 'oak', apiKey: 'pnk_secret' } }
              : { success: false, error: 'The token is not valid', code: 'DEPLOYMENT_TOKEN_INVALID' },
          ),
        )
      })
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
    await expect(enroll({ dataDir: home, url, deploymentToken: 'bad' })).rejects.toThrow('The token is not valid')
    expect(await enroll({ dataDir: home, url, deploymentToken: 'good' })).toEqual({ nodeId: 'node_1', nodeName: 'oak' })
    expect(seen[1]).toContain('POST /api/agent/enroll {"deploymentToken":"good"')
    const file = join(home, 'node.json')
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect(await readNodeFile(file)).toEqual({
      url,
      nodeId: 'node_1',
      nodeName: 'oak',
      nodeKey: 'pnk_secret',
      listenerUid: process.getuid?.(),
    })
    await expect(enroll({ dataDir: home, url, deploymentToken: 'good' })).rejects.toThrow('enrolled already')
    await chmod(file, 0o640)
    await expect(readNodeFile(file)).rejects.toThrow('chmod 600')
    server.close()
  })
})

describe('the lock of a data folder', () => {
  it('is held against others, freed by its owner, and says who has it', async () => {
    const path = join(home, 'agent.lock')
    const take = () => lockFolder(path, '2026-01-02T03:04:05.000Z')
    expect(await folderHolder(path)).toBeUndefined()
    // What another process has left, and what a power cut leaves.
    await writeFile(path, `{"pid":${process.pid},"start":"1","boot":"x","namespace":"x","host":"x","startedAt":"x"}`)
    expect(await folderHolder(path)).toBeUndefined()
    await writeFile(path, '')
    const taken = await Promise.all([take(), take(), take()])
    const locks = taken.flatMap((one) => ('lock' in one ? [one.lock] : []))
    const holders = taken.flatMap((one) => ('holder' in one ? [one.holder] : []))
    expect([locks.length, holders.length]).toEqual([1, 2])
    const mine = { pid: process.pid, host: hostname(), startedAt: '2026-01-02T03:04:05.000Z', isHere: true }
    expect(holders[0]).toMatchObject(mine)
    await locks[0]?.announce('http://127.0.0.1:1')
    expect(await folderHolder(path)).toMatchObject({ ...mine, url: 'http://127.0.0.1:1' })
    await locks[0]?.release()
    expect(await folderHolder(path)).toBeUndefined()
  })
})
