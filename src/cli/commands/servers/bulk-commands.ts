import { type Command, command, type Option } from '../../kit/command.ts'
import { IDEMPOTENCY, several, YES } from '../../kit/option-sets.ts'

const SERVERS = { ...several('server'), optional: true } as const
const FROM: Option = { flags: '--from <file>', summary: 'servers from a file, one in each line, - is stdin' }
const REASON: Option = { flags: '--reason <text>', summary: 'why; members of the server are shown it' }

/** Suspension, and what is done to several servers in one call. */
export const BULK_COMMANDS: readonly Command[] = [
  command({
    name: 'suspend',
    summary: 'Suspend a server: it is stopped, and refuses everything but reads until it is unsuspended',
    arguments: [SERVERS],
    options: [
      REASON,
      { flags: '--keep-running', summary: 'let it run on until it ends; it is not started again then' },
      FROM,
      IDEMPOTENCY,
    ],
    examples: ["panel servers suspend lobby --reason 'unpaid'", 'panel servers suspend --from unpaid.txt'],
    endpoints: ['servers.suspend'],
    exits: [3, 6, 7],
    load: async () => (await import('./suspend.ts')).suspendServers,
  }),
  command({
    name: 'unsuspend',
    summary: 'End the suspension of a server; it is not started by that',
    arguments: [SERVERS],
    options: [FROM, IDEMPOTENCY],
    examples: ['panel servers unsuspend lobby', 'panel servers unsuspend lobby && panel servers start lobby'],
    endpoints: ['servers.unsuspend'],
    exits: [3, 6, 7],
    load: async () => (await import('./suspend.ts')).unsuspendServers,
  }),
  command({
    name: 'bulk',
    summary: 'Start, stop, restart, kill, suspend, unsuspend or delete several servers',
    details:
      'One call for up to 200 servers. A server that is not there ends the whole call before anything is done (exit 6); each other ' +
      'failure is of its server alone (exit 3, or that of the first failure when none succeeded).',
    arguments: [
      {
        name: 'action',
        summary: 'what to do',
        choices: ['start', 'stop', 'restart', 'kill', 'suspend', 'unsuspend', 'delete'],
      },
      SERVERS,
    ],
    options: [REASON, FROM, YES, IDEMPOTENCY],
    examples: ['panel servers bulk stop lobby arena', 'panel servers bulk restart --from crashed.txt'],
    endpoints: ['servers.bulk_actions'],
    exits: [3, 6, 7, 12],
    load: async () => (await import('./bulk.ts')).bulkAction,
  }),
  command({
    name: 'status',
    summary: 'Show the state of several servers, in the order in which they were asked for',
    arguments: [SERVERS],
    options: [FROM],
    examples: ['panel servers status lobby arena', 'panel servers status --from ids.txt -o jsonl'],
    endpoints: ['servers.bulk_status'],
    exits: [6],
    load: async () => (await import('./bulk.ts')).serverStatus,
  }),
]
