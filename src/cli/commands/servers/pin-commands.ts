import { command } from '../../kit/command.ts'
import { field, IDEMPOTENCY, one } from '../../kit/option-sets.ts'

const actions = () => import('./pin.ts')

/** Which version of its template a server has. */
export const PIN_COMMANDS = [
  command({
    name: 'pin',
    summary: 'Keep the template of a server as it is now: edits of it reach the server no more',
    details:
      'Needs admin.write. What the template becomes is taken over by --refresh, or when the server is unpinned, at its next start. ' +
      '`panel servers view` says whether the template has changed since.',
    arguments: [one('server')],
    options: [
      field('--refresh', 'a pinned server takes over what its template is now', 'refresh', 'boolean'),
      IDEMPOTENCY,
    ],
    examples: ['panel servers pin demo', 'panel servers pin demo --refresh'],
    endpoints: ['servers.pin'],
    exits: [6, 7],
    load: async () => (await actions()).pinServer,
  }),
  command({
    name: 'unpin',
    summary: 'Let edits of its template reach a server again',
    details: 'Needs admin.write. The server takes the template over at its next start.',
    arguments: [one('server')],
    options: [IDEMPOTENCY],
    examples: ['panel servers unpin demo'],
    endpoints: ['servers.unpin'],
    exits: [6, 7],
    load: async () => (await actions()).unpinServer,
  }),
]
