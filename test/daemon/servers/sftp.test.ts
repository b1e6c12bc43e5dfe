import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { skippedUnless } from '../../skips.ts'
import { has, SftpStage } from './sftp-stage.ts'

const RUNS = has('sftp', 'ssh', 'ssh-keygen', 'sshpass')
const WHY_NOT = skippedUnless(RUNS, 'openssh-client and sshpass')

describe.skipIf(!RUNS)(`files over SFTP${WHY_NOT}`, () => {
  let stage: SftpStage

  beforeAll(async () => {
    stage = await SftpStage.enter()
  })
  afterAll(() => stage.close())

  test('who has the password of the account lists, gets and puts files', async () => {
    writeFileSync(join(stage.folder, 'server.properties'), 'motd=hello\n')
    const got = join(stage.local, 'got')
    const sent = stage.write('sent', 'level=world\n')
    const ended = await stage.sftp(['ls -l /', `get server.properties ${got}`, `put ${sent} level.txt`])
    expect(ended).toMatchObject({ status: 0, err: '' })
    expect(ended.out).toContain('server.properties')
    expect(readFileSync(got, 'utf8')).toBe('motd=hello\n')
    expect(readFileSync(join(stage.folder, 'level.txt'), 'utf8')).toBe('level=world\n')
  })
})
