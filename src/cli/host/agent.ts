import type { Action } from '../command.ts'
import { usage } from '../failure.ts'
import { column, type View } from '../output/view.ts'
import { checkUrl } from '../profile/target.ts'
import { readSecret } from '../prompt.ts'
import type { Enrolled } from '../roles.ts'

/** `panel agent run`. */
export const runAgent: Action = (run) => {
  const { args } = run
  return run.roles.runAgent({
    config: args.text('config'),
    panelUrl: args.text('panel-url'),
    dataDir: args.text('data-dir'),
  })
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
  const token = (await readSecret({ name: 'token', question: 'Enrolment token:' }, run)).trim()
  const enrolled = await run.roles.enrollAgent({
    url,
    token,
    dataDir: args.text('data-dir'),
    config: args.text('config'),
    caFile: args.text('ca-file'),
    force: args.flag('force'),
  })
  await run.out.item(enrolled, ENROLLED)
  if (!run.out.machine) run.notice('next: panel agent run')
}
