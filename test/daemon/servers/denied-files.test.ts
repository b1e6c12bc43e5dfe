import { expect, test } from 'vitest'
import { refuseDenied } from '../../../src/daemon/features/servers/files/denied-files.ts'
import type { Permission } from '../../../src/shared/kernel/permissions.ts'

const row = {
  templateDefinition: JSON.stringify({ fileDenylist: ['*.secret', '/admin/', '!keep.secret', 'conf/*.yml'] }),
}
const member = { permissions: new Set<Permission>() }
const operator = { permissions: new Set<Permission>(['admin.write']) }

test.each(['a.secret', 'deep/B.Secret', 'admin/x', '/ADMIN/x/y', './admin//x', 'conf/a.yml'])(
  'members do not get a file that the template keeps from them: %s',
  (path) => {
    expect(() => refuseDenied(row, path, member)).toThrow('keeps')
    expect(() => refuseDenied(row, path, operator)).not.toThrow()
  },
)

test.each(['keep.secret', 'world/admin', 'conf/a/b.yml', 'server.properties', '../a.secret'])(
  'others are left alone: %s',
  (path) => {
    expect(() => refuseDenied(row, path, member)).not.toThrow()
    expect(() => refuseDenied({ templateDefinition: '{}' }, path, member)).not.toThrow()
  },
)
