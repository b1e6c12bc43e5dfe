import type { MigrationJob, MigrationReport } from '../../../shared/api/migration.ts'
import { byteSize } from '../../kit/output/byte-size.ts'
import { oneLine } from '../../kit/output/escape.ts'
import { table } from '../../kit/output/table.ts'

/** A part of a report: rows under a heading, or lines. Without any it is left out. */
interface Section {
  readonly title: string
  readonly head?: readonly string[]
  readonly rows?: readonly (readonly string[])[]
  readonly lines?: readonly string[]
}

/** The report for people: headings and tables of plain text. */
export function textReport(job: MigrationJob, report: MigrationReport): string {
  const parts = sectionsOf(job, report).map(({ title, head, rows = [], lines = [] }) => {
    const safe = rows.map((row) => row.map(oneLine))
    return [
      `${title}\n`,
      rows.length === 0 ? '' : table(head, safe),
      ...lines.map((line) => `- ${oneLine(line)}\n`),
    ].join('')
  })
  return `${oneLine(headOf(job, report))}\n\n${parts.join('\n')}`
}

/** The same as Markdown. Nothing that came from the source makes a heading, a link or a picture of it. */
export function markdownReport(job: MigrationJob, report: MigrationReport): string {
  const parts = sectionsOf(job, report).map(({ title, head = [], rows = [], lines = [] }) => {
    const line = (row: readonly string[]): string => `| ${row.map(markdown).join(' | ')} |\n`
    const cells =
      rows.length === 0 ? '' : `${line(head)}|${head.map(() => ' --- |').join('')}\n${rows.map(line).join('')}`
    return `## ${title}\n\n${cells}${lines.map((one) => `- ${markdown(one)}\n`).join('')}`
  })
  return `# ${markdown(headOf(job, report))}\n\n${parts.join('\n')}`
}

/** How many servers have not come although nothing failed: they could not be read, or what they need is not here. */
export function serversLeftOut({ config }: Pick<MigrationJob, 'config'>, { totals }: MigrationReport): number {
  return config.verifyOf === null ? (totals['server']?.skipped ?? 0) : 0
}

function headOf(job: MigrationJob, report: MigrationReport): string {
  const { id, sourceUrl, status, outcome } = job
  const isWhole = outcome === 'clean' && report.clean && serversLeftOut(job, report) === 0
  const word = outcome === null ? status : isWhole ? 'everything came' : 'not everything came'
  return `Migration ${id} from ${sourceUrl}: ${word}`
}

function sectionsOf({ config }: MigrationJob, report: MigrationReport): Section[] {
  const { totals, servers, portChanges, passwordResets, skipped, lost, sourceLeftovers, warnings, api } = report
  const sections: Section[] = [
    {
      title: config.verifyOf === null ? 'What came' : 'What was compared',
      head: ['kind', 'read', 'created', 'linked', 'updated', 'unchanged', 'skipped', 'failed'],
      rows: Object.entries(totals).map(([kind, of]) => [
        kind,
        ...[of.read, of.created, of.linked, of.updated, of.unchanged, of.skipped, of.failed].map(String),
      ]),
    },
    {
      title: 'Servers',
      head: ['server', 'UUID', 'here', 'files', 'size', 'way', 'SHA-256 of the list of files'],
      rows: servers.map(({ source, target, files }) => [
        ...[source.name, source.uuid, target?.id ?? '-'],
        ...(files === null
          ? ['-', '-', '-', '-']
          : [String(files.count), byteSize(files.bytes), files.way, files.manifestSha256]),
      ]),
      lines: servers.flatMap(({ source, warnings }) => warnings.map((text) => `${source.name}: ${text}`)),
    },
    {
      title: 'Addresses that have changed',
      head: ['server', 'before', 'now'],
      rows: portChanges.map(({ server, from, to }) => [server, from, to]),
    },
    {
      title: 'Accounts without a password',
      lines: passwordResets.map(({ email }) => email),
    },
    {
      title: 'Left out',
      head: ['kind', 'name', 'why'],
      rows: skipped.map(({ type, name, reason }) => [type, name, reason]),
    },
    {
      title: 'What could not be brought',
      head: ['what', 'how many', 'why'],
      rows: lost.map(({ what, count, why }) => [what, count === 0 ? '-' : String(count), why]),
    },
    { title: 'Left behind on the source', lines: sourceLeftovers },
    { title: 'Warnings', lines: warnings },
    {
      title: 'Requests to the source',
      lines: [
        `${api.requests} requests, ${api.retries} of them again; ${Math.round(api.throttledSeconds)} s left alone`,
      ],
    },
  ]
  return sections.filter(({ rows = [], lines = [] }) => rows.length + lines.length > 0)
}

function markdown(text: string): string {
  return oneLine(text)
    .replace(/[\\`*_{}[\]()#+!|~]/g, '\\$&')
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
}
