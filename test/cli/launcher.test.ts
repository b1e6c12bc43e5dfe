import { execFile } from 'node:child_process'
import { chmod, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

const CLONE = resolve(import.meta.dirname, '../..')

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-launcher-'))
  // Stands for Node, and says what it was started with.
  await writeFile(
    join(folder, 'node'),
    '#!/bin/sh\necho "$MALLOC_ARENA_MAX $MALLOC_MMAP_THRESHOLD_"\nprintf "%s\\n" "$@"\n',
  )
  await chmod(join(folder, 'node'), 0o755)
})

afterAll(() => rm(folder, { recursive: true, force: true }))

async function launched(program: string, env: Record<string, string> = {}): Promise<string[]> {
  const { stdout } = await promisify(execFile)(program, ['servers', 'list', 'a b'], {
    env: { PATH: `${folder}:/usr/bin:/bin`, ...env },
  })
  return stdout.trimEnd().split('\n')
}

test('starts Node with one thread of V8 and two heaps, and hands on each argument as it is', async () => {
  const panel = join(CLONE, 'dist/bin/panel.js')
  expect(await launched(join(CLONE, 'panel'))).toEqual(['2 70000', '--v8-pool-size=1', panel, 'servers', 'list', 'a b'])
})

test('finds its clone through a link, and leaves what is set as it is', async () => {
  const link = join(folder, 'linked')
  await symlink(join(CLONE, 'panel'), link)
  const [heaps, , panel] = await launched(link, { MALLOC_ARENA_MAX: '7' })
  expect(heaps).toBe('7 70000')
  expect(panel).toBe(join(CLONE, 'dist/bin/panel.js'))
})
