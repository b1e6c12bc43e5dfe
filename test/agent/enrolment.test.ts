import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createDeploymentToken, createNode } from '../../src/shared/api/nodes.ts'
import { createClient } from '../../src/shared/client.ts'
import { type Certificate, makeCertificate } from '../daemon/mail/mail-server.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { runPanel } from '../run-panel.ts'
import { httpsFetch } from './https-fetch.ts'

let authority: Certificate
let panel: TestPanel
let home: string
let token: string
let agentDir: string

beforeAll(async () => {
  authority = await makeCertificate()
  home = await mkdtemp(join(tmpdir(), 'panel-enrolment-'))
  agentDir = join(home, 'agent')
  const env = { PANEL_HTTP__TLS_CERT: authority.file, PANEL_HTTP__TLS_KEY: join(authority.folder, 'key.pem') }
  panel = await startPanel({ env })
  const client = createClient({ baseUrl: panel.url, token: panel.adminToken, fetch: httpsFetch(authority.cert) })
  const node = await client.call(createNode, {
    body: {
      ...{ name: 'box', locationId: panel.locationId, hostname: 'box', publicAddress: '127.0.0.1' },
      ...{ defaultIp: '127.0.0.1', maxMemoryMb: 1024, maxCpuCores: 4 },
    },
  })
  token = (await client.call(createDeploymentToken, { params: { nodeId: node.id }, body: {} })).deploymentToken
})
afterAll(async () => {
  await panel.close()
  await authority.remove()
  await rm(home, { recursive: true, force: true })
})

const run = (args: readonly string[], until?: RegExp, input = '') =>
  runPanel(['agent', ...args, '--data-dir', agentDir], {
    env: { HOME: home },
    input,
    onOutput: (text) => (until?.test(text) ? 'SIGTERM' : undefined),
  })
const enroll = (...flags: string[]) => run(['enroll', '--url', panel.url, '--token-stdin', ...flags], undefined, token)

it('says what is wrong with its configuration, before the token is spent', async () => {
  const args = ['agent', 'enroll', '--url', panel.url, '--token-stdin', '--data-dir', 'agent']
  const refused = await runPanel(args, { env: { HOME: home }, input: token })
  expect(refused).toMatchObject({ code: 8, stdout: '' })
  expect(refused.stderr).toContain("The agent's configuration is not valid: agent.dataDir: must be an absolute path")
})

it('names an authority that is not known, before the token is spent, and keeps the one of --ca-file', async () => {
  const refused = await enroll()
  expect(refused).toMatchObject({ code: 13, stdout: '' })
  expect(refused.stderr).toMatch(
    /certificate is not accepted: self-signed certificate .*--ca-file <pem> \(UNREACHABLE\)/,
  )
  expect(await enroll('--ca-file', join(home, 'absent.pem'))).toMatchObject({
    code: 8,
    stderr: expect.stringContaining('cannot be read as certificates in PEM'),
  })
  const enrolled = await enroll('--ca-file', authority.file)
  expect(enrolled, enrolled.stderr).toMatchObject({ code: 0 })
  expect(enrolled.stderr).toContain(`next: panel agent run --data-dir ${agentDir}\n`)
  expect(JSON.parse(await readFile(join(agentDir, 'node.json'), 'utf8'))).toMatchObject({ ca: authority.cert })
})

it('says with what flag a folder is enrolled that is enrolled already, or not yet', async () => {
  const again = await enroll('--ca-file', authority.file)
  expect(again).toMatchObject({ code: 7, stderr: expect.stringContaining('--force replaces its credentials') })
  const empty = join(home, 'not enrolled')
  const missing = await runPanel(['agent', 'run', '--data-dir', empty], { env: { HOME: home } })
  expect(missing.code).toBe(14)
  expect(missing.stderr).toContain(`here "panel agent enroll --url <panel> --token-stdin --data-dir '${empty}'"`)
})

it('runs with the authority of the enrolment and no flag, in JSON lines where there is no terminal', async () => {
  const ran = await run(['run'], /connected to the daemon/)
  const lines = ran.stdout.trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line))).toContainEqual(
    expect.objectContaining({ level: 'info', component: 'agent', msg: 'connected to the daemon' }),
  )
})

it('goes to the panel of --url, and says why it cannot be reached', async () => {
  const ran = await run(['run', '--url', 'https://127.0.0.1:1', '--log-format', 'pretty'], /cannot reach daemon/)
  expect(ran.stdout).toMatch(/WARN.*: cannot reach daemon\n +component: "agent"\n +url: "https:\/\/127\.0\.0\.1:1"/)
  const twice = await run(['run', '--url', 'https://127.0.0.1:1', '--panel-url', 'https://127.0.0.1:2'])
  expect(twice).toMatchObject({ code: 2, stderr: expect.stringContaining('give one') })
})

it('logs what --log-level says, and takes the authority of --ca-file before its own', async () => {
  const other = await makeCertificate()
  try {
    const ran = await run(['run', '--log-level', 'warn', '--ca-file', other.file], /certificate is not accepted/)
    expect(ran.stdout).not.toContain('agent started')
    expect(ran.stdout).toContain('--ca-file <pem>')
  } finally {
    await other.remove()
  }
})
