import { shellWord } from '../../../shared/kernel/shell-word.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, type View } from '../../kit/output/view.ts'
import { checkUrl } from '../../kit/profile/target.ts'
import { readSecret } from '../../kit/prompt.ts'
import type { Run } from '../../kit/run.ts'
import type { Enrolled } from '../../roles.ts'
import { agreeOnListener } from '../session/listener-consent.ts'

/** `panel agent run`. */
export const runAgent: Action = (run) => {
  const { args } = run
  const [panelUrl, url] = [args.text('panel-url'), args.text('url')]
  if (panelUrl !== undefined && url !== undefined) throw usage('--url and --panel-url are the same; give one')
  return run.roles.runAgent({
    config: args.text('config'),
    panelUrl: panelUrl ?? url,
    dataDir: args.text('data-dir'),
    ...trustOf(run),
    logFormat: args.text('log-format'),
    logLevel: args.text('log-level'),
  })
}

function trustOf({ args, env }: Run) {
  return {
    caFile: args.text('ca-file'),
    allowInsecure: args.flag('insecure-http') || env.insecureHttp,
    listenerUid: args.integer('listener-uid') ?? env.listenerUid,
  }
}

const ENROLLED: View<Enrolled> = {
  id: (row) => row.nodeId,
  name: (row) => row.nodeName,
  columns: [
    column('NODE', (row) => row.nodeName),
    column('NODE ID', (row) => row.nodeId),
    column('CREDENTIALS', (row) => row.file),
  ],
}

/** `panel agent enroll`. */
export const enrollAgent: Action = async (run) => {
  const { args } = run
  const url = args.text('url') ?? run.env.url
  if (url === undefined) throw usage('--url <url> is required: the panel that made the token')
  checkUrl(url)
  const trust = trustOf(run)
  const token = (await readSecret({ name: 'token', question: 'Enrolment token:' }, run)).trim()
  const enrolled = await run.roles.enrollAgent({
    url,
    token,
    dataDir: args.text('data-dir'),
    config: args.text('config'),
    ...trust,
    listenerUid: trust.listenerUid ?? (await agreeOnListener(run, url)),
    force: args.flag('force'),
  })
  await run.out.item(enrolled, ENROLLED)
  // Without the flags that named them, the agent would look elsewhere for what has just been written.
  const flags = ['data-dir', 'config'].map((name) => [name, args.text(name)] as const)
  const named = flags.flatMap(([name, value]) => (value === undefined ? [] : [` --${name} ${shellWord(value)}`]))
  if (!run.out.machine) run.notice(`next: panel agent run${named.join('')}`)
}
