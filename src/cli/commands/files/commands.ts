import { command, noun } from '../../kit/command.ts'
import { one } from '../../kit/option-sets.ts'

const PATH = { name: 'path', summary: 'the file, from the folder of the server on' } as const

export const files = noun({
  name: 'files',
  summary: 'Files of servers',
  group: 'Core',
  children: [
    command({
      name: 'get',
      summary: 'Download a file of a server',
      details: 'A connection that breaks is gone on with where it was. The local file appears whole or not at all.',
      arguments: [
        one('server'),
        PATH,
        { name: 'file', summary: 'where it is written: by default its own name here; - is stdout', optional: true },
      ],
      options: [{ flags: '--force', summary: 'replace a file that is there' }],
      examples: ['panel files get demo server.properties', 'panel files get demo world/level.dat - | sha256sum'],
      endpoints: ['files.read'],
      exits: [5, 6, 7, 8, 12],
      load: async () => (await import('./get.ts')).get,
    }),
    command({
      name: 'put',
      summary: 'Upload a file to a server',
      details:
        'The file of the server is replaced when all of it has arrived; until then, and when the upload breaks, it stays as it was. ' +
        'A file, but not stdin, is gone on with where a broken connection left it.',
      arguments: [
        one('server'),
        PATH,
        { name: 'file', summary: 'what is sent: by default the file of that name here; - is stdin', optional: true },
      ],
      options: [
        { flags: '--if-absent', summary: 'refuse to replace a file (exit 7)' },
        { flags: '--if-match <etag>', summary: 'replace only the file with this etag (exit 7)' },
      ],
      examples: [
        'panel files put demo server.properties ./server.properties',
        "printf 'motd=hello' | panel files put demo server.properties -",
      ],
      endpoints: ['files.write'],
      exits: [5, 6, 7, 8, 12],
      load: async () => (await import('./put.ts')).put,
    }),
  ],
})
