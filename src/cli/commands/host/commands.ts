import { command, noun, type Option } from '../../kit/command.ts'

const DATA_DIR: Option = { flags: '--data-dir <folder>', summary: 'the data folder' }
const CONFIG: Option = { flags: '--config <file>', summary: 'the configuration file' }
const LOG_FORMAT: Option = {
  flags: '--log-format <format>',
  summary: 'json or pretty (default: pretty on a terminal)',
  choices: ['json', 'pretty'],
}
const LISTEN: Option = { flags: '--listen <address>', summary: 'where it listens: host:port, :port or port' }

export const up = command({
  name: 'up',
  summary: 'Run a whole panel on this machine: daemon, agent and a demo game',
  details:
    'It stays in the foreground; Ctrl-C stops daemon and agent, games run on. The context `local` is made for the other ' +
    'commands. When one runs already its screen is shown.',
  options: [LISTEN, DATA_DIR],
  examples: ['panel up', 'panel up --listen 127.0.0.1:7421 --data-dir ./data'],
  exits: [14],
  group: 'Host',
  ownsSignals: true,
  load: async () => (await import('./up.ts')).up,
})

export const down = command({
  name: 'down',
  summary: 'Stop the panel of this machine; games run on',
  options: [
    DATA_DIR,
    { flags: '--servers', summary: 'stop the games first' },
    { flags: '--timeout <duration>', summary: 'how long each part may take (default 60s)' },
  ],
  examples: ['panel down', 'panel down --servers'],
  exits: [3, 11, 14, 124],
  group: 'Host',
  load: async () => (await import('./up.ts')).down,
})

export const daemon = noun({
  name: 'daemon',
  summary: 'The panel itself: API, gateway and database',
  group: 'Host',
  children: [
    command({
      name: 'run',
      summary: 'Run the daemon in the foreground',
      options: [
        CONFIG,
        LISTEN,
        DATA_DIR,
        LOG_FORMAT,
        {
          flags: '--log-level <level>',
          summary: 'what is logged',
          choices: ['trace', 'debug', 'info', 'warn', 'error'],
        },
        {
          flags: '--check',
          summary: 'start nothing: say what is wrong with configuration, certificate and data folder',
        },
      ],
      examples: [
        'panel daemon run',
        'panel daemon run --config /etc/panel/panel.yaml --log-format json',
        'panel daemon run --config /etc/panel/panel.yaml --check',
      ],
      exits: [14],
      ownsSignals: true,
      load: async () => (await import('./daemon.ts')).runDaemon,
    }),
    command({
      name: 'status',
      summary: 'Report whether the daemon of this machine runs: exit 0 running, 3 stopped, 4 unknown',
      options: [DATA_DIR],
      examples: ['panel daemon status', 'panel daemon status -o json'],
      exits: [3],
      load: async () => (await import('./daemon.ts')).daemonStatus,
    }),
  ],
})

export const agent = noun({
  name: 'agent',
  summary: 'The part that runs games on a node',
  group: 'Host',
  children: [
    command({
      name: 'enroll',
      summary: 'Exchange a one-time enrolment token for node credentials',
      details:
        'The token comes from `panel nodes enroll-token`. The credentials are kept in the data folder of the agent (0600), ' +
        'with the certificates of --ca-file, which `panel agent run` trusts from then on.',
      options: [
        { flags: '--token-stdin', summary: 'read the token from stdin' },
        { flags: '--secret-file <file>', summary: 'read the token from a file' },
        CONFIG,
        DATA_DIR,
        { flags: '--force', summary: 'replace the credentials of an earlier enrolment' },
      ],
      examples: ['panel agent enroll --url https://panel.example.org --token-stdin < token'],
      endpoints: ['agent.enroll'],
      exits: [7, 8],
      load: async () => (await import('./agent.ts')).enrollAgent,
    }),
    command({
      name: 'run',
      summary: 'Run the agent in the foreground',
      options: [
        CONFIG,
        { flags: '--panel-url <url>', summary: 'the panel (default: that of the enrolment); the same as --url' },
        DATA_DIR,
        LOG_FORMAT,
        {
          flags: '--log-level <level>',
          summary: 'what is logged (default info)',
          choices: ['debug', 'info', 'warn', 'error'],
        },
      ],
      examples: ['panel agent run', 'panel agent run --data-dir /var/lib/panel-agent'],
      exits: [12, 14],
      ownsSignals: true,
      load: async () => (await import('./agent.ts')).runAgent,
    }),
  ],
})
