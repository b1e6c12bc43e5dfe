import { command } from '../../kit/command.ts'

export const api = command({
  name: 'api',
  summary: 'Call the API directly',
  details:
    'Prints the answer as it came. A path without a leading / is below /api/. Fields make a POST; in a GET they are the query. ' +
    'The exit code follows the code of the error.',
  arguments: [{ name: 'path', summary: 'such as /api/servers' }],
  options: [
    {
      flags: '-X, --method <method>',
      summary: 'GET, POST, PUT, PATCH or DELETE',
      choices: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
    },
    {
      flags: '--field <name=value>',
      summary: 'a field; true, false, null and numbers are typed, @file is read',
      repeat: true,
    },
    { flags: '--raw-field <name=value>', summary: 'a field as text', repeat: true },
    { flags: '-H, --header <name:value>', summary: 'a header', repeat: true },
    { flags: '--input <file>', summary: 'the body, - is stdin' },
    { flags: '-i, --include', summary: 'print status and headers too' },
    { flags: '--unwrap', summary: 'print `data` alone' },
    { flags: '--paginate', summary: 'walk all pages and print their rows as one list' },
    { flags: '--stream', summary: 'follow an event stream, one JSON object per line' },
    { flags: '--silent', summary: 'print nothing' },
    { flags: '--idempotency-key <key>', summary: 'makes a repetition of a POST harmless' },
  ],
  examples: [
    "panel api /api/servers --unwrap --jq '.[].name'",
    'panel api locations --field name=berlin',
    'panel api /api/servers --paginate --jq length',
  ],
  exits: [6, 7, 8, 9, 12],
  group: 'Tooling',
  load: async () => (await import('./api.ts')).callApi,
})

export const openapi = command({
  name: 'openapi',
  summary: 'Print the OpenAPI document of the panel',
  options: [{ flags: '--out <file>', summary: 'write it to this file' }],
  examples: ['panel openapi > openapi.json', 'panel openapi -o yaml'],
  group: 'Tooling',
  paged: true,
  load: async () => (await import('./openapi.ts')).openapi,
})

export const commands = command({
  name: 'commands',
  summary: 'List all commands, with --json for programs',
  examples: ['panel commands', "panel commands --json --jq '.[].path'"],
  group: 'Tooling',
  paged: true,
  load: async () => (await import('./commands-list.ts')).listCommands,
})

export const completion = command({
  name: 'completion',
  summary: 'Print the completion script of a shell',
  details:
    'bash: panel completion bash > ~/.local/share/bash-completion/completions/panel · ' +
    'zsh: panel completion zsh > a folder of $fpath, as _panel · fish: panel completion fish > ~/.config/fish/completions/panel.fish',
  arguments: [{ name: 'shell', summary: 'which shell', choices: ['bash', 'zsh', 'fish'] }],
  examples: ['source <(panel completion bash)', 'panel completion fish | source'],
  group: 'Tooling',
  load: async () => (await import('./completion.ts')).completion,
})

export const version = command({
  name: 'version',
  summary: 'Show the version of this program, with --check that of the panel too',
  options: [{ flags: '--check', summary: 'ask the panel for the version of its API' }],
  examples: ['panel version', 'panel version --check --json'],
  group: 'Tooling',
  load: async () => (await import('./version.ts')).showVersion,
})

/** What the completion scripts call. */
export const complete = command({
  name: '__complete',
  summary: 'Complete a command line',
  arguments: [
    { name: 'words', summary: 'the words so far, the last one unfinished', many: true, optional: true, blank: true },
  ],
  examples: ['panel __complete -- servers li'],
  hidden: true,
  group: 'Tooling',
  load: async () => (await import('./complete.ts')).complete,
})
