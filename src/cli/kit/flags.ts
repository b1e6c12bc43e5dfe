import type { Option } from './command.ts'

/** The formats of `-o`. */
export const FORMATS = ['table', 'wide', 'json', 'jsonl', 'yaml', 'csv', 'name', 'id'] as const
export type Format = (typeof FORMATS)[number]

/** The flags that every command takes, at any place of the line. */
export const GLOBAL_FLAGS: readonly Option[] = [
  { flags: '--context <name>', summary: 'use this context (PANEL_CONTEXT)' },
  { flags: '--url <url>', summary: 'talk to this panel (PANEL_URL)' },
  { flags: '--ca-file <pem>', summary: 'trust the certificates in this file as well' },
  { flags: '--insecure-skip-tls-verify', summary: 'do not check the certificate of the panel' },
  { flags: '--insecure-http', summary: 'send credentials over plain http to another machine (PANEL_INSECURE_HTTP)' },
  {
    flags: '--listener-uid <uid>',
    summary: 'trust a panel on this machine that runs as this user (PANEL_LISTENER_UID)',
  },
  { flags: '-o, --output <format>', summary: `${FORMATS.join(', ')} (PANEL_OUTPUT)`, choices: FORMATS },
  { flags: '--json [fields]', summary: 'the same as -o json, with a choice of fields: --json id,name' },
  { flags: '--jq <expression>', summary: 'filter the JSON output with a jq expression' },
  { flags: '--no-header', summary: 'leave out the heading of tables and CSV' },
  { flags: '--columns <names>', summary: 'choose the columns of tables and CSV: --columns name,status' },
  { flags: '--color <when>', summary: 'when to use colours', choices: ['auto', 'always', 'never'] },
  { flags: '--no-color', summary: 'no colours (NO_COLOR, PANEL_NO_COLOR)' },
  { flags: '-q, --quiet', summary: 'no notices on stderr' },
  { flags: '-v, --verbose', summary: 'say more on stderr' },
  { flags: '--debug', summary: 'trace HTTP on stderr, secrets masked (PANEL_DEBUG)' },
  { flags: '--no-input', summary: 'never ask; a missing answer is an error (PANEL_NO_INPUT)' },
  { flags: '--no-pager', summary: 'never use a pager (PANEL_PAGER)' },
  { flags: '--request-timeout <duration>', summary: 'how long one request may take (default 30s)' },
  { flags: '--retries <n>', summary: 'how often a harmless request is repeated (default 3)' },
  { flags: '--utc', summary: 'show times as ISO-8601 in UTC' },
  { flags: '-h, --help', summary: 'show help' },
]
