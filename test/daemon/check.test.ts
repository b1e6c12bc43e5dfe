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

it('panel daemon run --check says what a valid configuration does, and starts nothing', async () => {
  const dir = join(home, 'empty')
  await mkdir(dir)
  const { code, stdout, stderr } = await check(`http: { listen: 127.0.0.1:1 }\ndata: { dir: ${dir} }\n`)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toContain('The configuration is valid.')
  expect(stdout).toContain('http://127.0.0.1:1\n')
  expect(await readdir(dir)).toEqual([])
})
