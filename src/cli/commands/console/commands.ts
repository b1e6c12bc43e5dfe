import { command, noun, type Option } from '../../kit/command.ts'
import { one } from '../../kit/option-sets.ts'
import { DOWNLOAD } from '../../kit/resource/download-options.ts'

const AFTER: Option = { flags: '--after-cursor <id>', summary: 'begin after this line: <epoch>-<number>' }
const TAIL: Option = { flags: '--tail <n>', summary: 'how many lines before the first new one' }

export const console = noun({
  name: 'console',
  summary: 'What servers print, and what is typed into them',
  group: 'Core',
  children: [
    command({
      name: 'attach',
      summary: 'Open the console of a server; Ctrl-] leaves it, the game runs on',
      details:
        'On a terminal this is a full screen. Elsewhere, or with --no-tui, lines are printed as they come and lines of stdin are ' +
        'sent as commands. Ctrl-C never stops a game.',
      arguments: [one('server')],
      options: [
        { flags: '--read-only', summary: 'send nothing' },
        { ...TAIL, summary: 'how many lines before the first new one (default 500)' },
        AFTER,
        { flags: '--no-tui', summary: 'plain lines in the place of the screen' },
        {
          flags: '--theme <name>',
          summary: 'colours of the screen; auto goes by NO_COLOR and COLORFGBG (default auto)',
          choices: ['auto', 'dark', 'light', 'none'],
        },
        { flags: '--detach-keys <keys>', summary: 'what leaves the screen (default ctrl-])' },
      ],
      examples: ['panel console attach demo', "echo 'say hello' | panel console attach demo --no-tui --tail 0"],
      exits: [6, 7, 9, 12],
      ownsSignals: true,
      load: async () => (await import('./attach.ts')).attach,
    }),
    command({
      name: 'logs',
      summary: 'Follow the console of a server; resumes without a loss by Last-Event-ID',
      details:
        'Without -f the lines up to now are printed. With --cursor-file the place is kept in a file after the lines are written: ' +
        'the next run goes on exactly there, no line twice and none lost.',
      arguments: [one('server')],
      options: [
        { flags: '-f, --follow', summary: 'go on with new lines' },
        { ...TAIL, summary: 'how many lines before the first new one (default 100; 0 is none)' },
        { flags: '--since <when>', summary: 'from then on: ISO-8601, or a duration before now' },
        { flags: '--until <when>', summary: 'up to then' },
        AFTER,
        { flags: '--cursor-file <file>', summary: 'keep the place in this file' },
        {
          flags: '-g, --grep <regex>',
          summary: 'only lines that match; upper case in it makes case count',
          blank: true,
        },
        { flags: '--stream <name>', summary: 'only this stream', choices: ['stdout', 'stderr', 'stdin', 'system'] },
        { flags: '--timestamps', summary: 'the time in front of each line' },
        { flags: '--all', summary: 'the whole log of the node, as text, oldest line first' },
        ...DOWNLOAD,
      ],
      examples: [
        'panel console logs demo --tail 20',
        'panel console logs demo --all --out demo.log',
        'panel console logs demo -f --cursor-file ~/.cache/demo.cursor -o jsonl',
        "panel console logs demo --since 1h --grep 'joined'",
      ],
      endpoints: ['console.stream', 'console.download'],
      exits: [6, 7, 9, 12, 15],
      load: async () => (await import('./logs.ts')).logs,
    }),
    command({
      name: 'send',
      summary: 'Send a command to the console of a server',
      details:
        'Where it goes is said by `console` of the template: into the input of the game, its terminal, or by RCON with the answer in the ' +
        'console. A game that takes no input is exit 7, one whose RCON does not answer exit 11.',
      arguments: [
        one('server'),
        {
          name: 'text',
          summary: 'the command; put -- in front when it has dashes',
          many: true,
          optional: true,
          blank: true,
        },
      ],
      options: [
        { flags: '--stdin', summary: 'one command per line of stdin' },
        { flags: '--rate <n>', summary: 'the most commands per second from stdin (default 5)' },
      ],
      examples: ['panel console send demo say hello', 'panel console send demo --stdin < commands.txt'],
      endpoints: ['console.command'],
      exits: [3, 6, 7, 9, 11, 12],
      load: async () => (await import('./send.ts')).send,
    }),
    command({
      name: 'expect',
      summary: 'Wait for a line, after sending a command where one is given',
      details: 'It listens before it sends. Exit 124 when --timeout passes, 15 when the console ends without a match.',
      arguments: [one('server'), { name: 'regex', summary: 'what the line looks like', blank: true }],
      options: [
        { flags: '--send <command>', summary: 'send this first', blank: true },
        { flags: '--timeout <duration>', summary: 'how long to wait (default 30s)' },
        { flags: '--count <n>', summary: 'how many lines must match (default 1)' },
      ],
      examples: ["panel console expect demo 'players online' --send list --timeout 10s"],
      exits: [6, 7, 12, 15, 124],
      load: async () => (await import('./expect.ts')).expect,
    }),
    command({
      name: 'history',
      summary: 'Read the log of a server page by page, oldest first',
      arguments: [one('server')],
      options: [
        { flags: '-L, --limit <n>', summary: 'the most lines (default 1000)' },
        { flags: '--before-seq <id>', summary: 'the lines before this one: a number or <epoch>-<number>' },
        { flags: '--since <when>', summary: 'from then on: ISO-8601, or a duration before now' },
        { flags: '--until <when>', summary: 'up to then' },
        { flags: '-g, --grep <regex>', summary: 'only lines that match', blank: true },
        { flags: '--timestamps', summary: 'the time in front of each line' },
      ],
      examples: ['panel console history demo --limit 5000', "panel console history demo --since 1d --grep 'error'"],
      endpoints: ['console.logs'],
      exits: [6, 7, 12, 15],
      paged: true,
      load: async () => (await import('./history.ts')).history,
    }),
  ],
})
