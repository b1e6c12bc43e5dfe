import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runPanel } from '../run-panel.ts'

let home: string
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'panel-check-'))
})
afterAll(() => rm(home, { recursive: true }))

const check = async (yaml: string, env: Readonly<Record<string, string>> = {}) => {
  const config = join(home, 'panel.yaml')
  await writeFile(config, yaml)
  return runPanel(['daemon', 'run', '--config', config, '--check'], { env: { HOME: home, ...env } })
}

it('panel daemon run --check prints every problem, of the data folder as well, and starts nothing', async () => {
  await writeFile(join(home, 'file'), '')
  const { code, stdout, stderr } = await check(
    `http: { listen: 0.0.0.0:1, tlsCert: ${home}/none.crt, tlsKey: ${home}/none.key }\ndata: { dir: ${home}/file/data }\n`,
    { PANEL_CREDENTIAL_KEY: 'short', PANEL_NONSENSE: 'x', PANEL_HTPP__LISTEN: 'x' },
  )
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr.split('\n')).toEqual([
    'panel: the variable PANEL_NONSENSE means nothing here (see panel help flags)',
    'panel: the variable PANEL_HTPP__LISTEN means nothing here',
    'The configuration is not valid:',
    expect.stringMatching(/^ {2}http\.tlsCert: ENOENT/),
    expect.stringMatching(/^ {2}http\.tlsKey: ENOENT/),
    expect.stringMatching(/^ {2}PANEL_CREDENTIAL_KEY: /),
    `  data.dir: ${home}/file is no folder`,
    '',
  ])
})

it('panel daemon run does not wait for a named pipe that nobody writes to', async () => {
  const pipe = join(home, 'pipe')
  execFileSync('mkfifo', [pipe])
  const env = { HOME: home, PANEL_CREDENTIAL_KEY_FILE: pipe }
  const ran = await runPanel(['daemon', 'run', '--config', pipe, '--check'], {
    env,
    signal: AbortSignal.timeout(20_000),
  })
  expect(ran).toMatchObject({ code: 2, stdout: '' })
  expect(ran.stderr.split('\n')).toEqual([
    'The configuration is not valid:',
    `  ${pipe}: ${pipe} is a named pipe, not a file`,
    `  PANEL_CREDENTIAL_KEY_FILE: ${pipe} is a named pipe, not a file`,
    '',
  ])
  const agent = await runPanel(['agent', 'run', '--config', pipe], {
    env: { HOME: home },
    signal: AbortSignal.timeout(20_000),
  })
  expect(agent.code).toBe(2)
  expect(agent.stderr).toContain(`${pipe} is a named pipe, not a file`)
})

it('panel templates sources does not wait for one, nor for a device', async () => {
  const pipe = join(home, 'source.tar.gz')
  execFileSync('mkfifo', [pipe])
  const env = { HOME: home, PANEL_URL: 'http://127.0.0.1:1', PANEL_TOKEN: 'pak_x' }
  for (const [path, is] of [
    [pipe, 'a named pipe'],
    ['/dev/zero', 'a device or socket'],
  ] as const) {
    const { code, stderr } = await runPanel(['templates', 'sources', 'list', path], {
      env,
      signal: AbortSignal.timeout(20_000),
    })
    expect([code, stderr]).toEqual([
      2,
      `panel: ${path} is ${is}, not a file; give a folder, an archive or an egg (FILE_UNREADABLE)\n`,
    ])
  }
})

it('panel daemon run --check says what a valid configuration does, and starts nothing', async () => {
  const dir = join(home, 'empty')
  await mkdir(dir)
  const { code, stdout, stderr } = await check(`http: { listen: 127.0.0.1:1 }\ndata: { dir: ${dir} }\n`)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toContain('The configuration is valid.')
  expect(stdout).toContain('http://127.0.0.1:1\n')
  expect(await readdir(dir)).toEqual([])
})
