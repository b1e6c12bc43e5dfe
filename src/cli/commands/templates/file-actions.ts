import type { NewTemplate } from '../../../shared/api/template-fields.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import { fillPlaceholders, placeholderVariable } from '../../../shared/kernel/placeholders.ts'
import { shellLine } from '../../../shared/kernel/startup-line.ts'
import { checkEnvironment } from '../../../shared/templates/variable-rules.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, type View } from '../../kit/output/view.ts'
import { parsePair } from '../../kit/read-file.ts'
import type { Run } from '../../kit/run.ts'
import { DIFFERENCES, differences } from './differences.ts'
import { readTemplateFile } from './template-file.ts'

// What works on files alone: no panel is asked.

interface NoteRow {
  readonly kind: string
  readonly field: string
  readonly message: string
}

const NOTES: View<NoteRow> = {
  columns: [
    column('KIND', (row) => row.kind),
    column('FIELD', (row) => row.field),
    column('MESSAGE', (row) => row.message),
  ],
  id: (row) => row.field,
  name: (row) => row.field,
}

/** What the panel would say of a file: a table of notes, or exit 8 with the reasons. */
export const lintTemplate: Action = async (run) => {
  const path = run.args.required('file')
  const { template, egg } = await readTemplateFile(path, run.terminal.stdin)
  const what = egg === null ? 'a template of this panel' : `an egg (${egg.report.format})`
  run.notice(`${path} is ${what}: ${template.name}`)
  await run.out.list(egg?.report.notes ?? [], NOTES)
}

interface PartRow {
  readonly part: 'startup' | 'variable' | 'file'
  readonly name: string
  readonly value: string | number | boolean | null
}

const PARTS: View<PartRow> = {
  columns: [column('PART', (row) => row.part), column('NAME', (row) => row.name), column('VALUE', (row) => row.value)],
  id: (row) => row.name,
  name: (row) => row.name,
}

/** What a server of the template would be started with. */
export const testTemplate: Action = async (run) => {
  const { template } = await readTemplateFile(run.args.required('file'), run.terminal.stdin)
  const given = Object.fromEntries(run.args.list('env').map((text) => parsePair(text, '--env')))
  const { environment, problems } = checkEnvironment(template.variables, given)
  if (problems.length > 0)
    throw new PanelError('VALIDATION_ERROR', 'Some variables are not valid', { details: problems })
  const ip = run.args.text('ip') ?? '0.0.0.0'
  const port = run.args.integer('port') ?? template.supportedPorts[0] ?? 25_565
  const further = furtherPorts(template, port)
  const values = {
    ...environment,
    ...Object.fromEntries(
      further.flatMap((one) => (one.variable === null ? [] : [[one.variable, String(one.number)] as const])),
    ),
    SERVER_IP: ip,
    SERVER_PORT: String(port),
    SERVER_MEMORY: String(template.allocatedMemoryMb),
    P_SERVER_UUID: '00000000-0000-0000-0000-000000000000',
  }
  await run.out.list(
    [
      ...lineRows(run, template, values),
      ...variableRows(values),
      ...fileRows(template, { ...values, ...placeholdersOf(further, ip) }),
    ],
    PARTS,
  )
}

interface FurtherPort {
  readonly name: string
  readonly variable: string | null
  readonly number: number
}

/** The further ports as a server might have them: those with a number of their own stand behind the others. */
function furtherPorts({ ports }: NewTemplate, primary: number): FurtherPort[] {
  const taken = new Set([primary, ...ports.flatMap(({ offset }) => (offset === null ? [] : [primary + offset]))])
  return ports.map(({ name, variable, offset }) => {
    let number = primary + (offset ?? 1)
    while (offset === null && taken.has(number)) number += 1
    taken.add(number)
    return { name, variable, number }
  })
}

function placeholdersOf(further: readonly FurtherPort[], ip: string): Record<string, string> {
  return Object.fromEntries(
    further.flatMap(({ name, number }) => [
      [`server.allocations.${name}.port`, String(number)],
      [`server.allocations.${name}.ip`, ip],
    ]),
  )
}

function lineRows(run: Run, template: NewTemplate, values: Readonly<Record<string, string>>): PartRow[] {
  const wanted = run.args.text('startup')
  const further = template.startupCommands.find(({ name }) => name === wanted)
  if (wanted !== undefined && further === undefined) {
    const names = template.startupCommands.map(({ name }) => name).join(', ')
    throw usage(`the template has no startup line named '${wanted}'${names === '' ? '' : `; it has ${names}`}`)
  }
  const known = (name: string): string | undefined => {
    const further = template.ports.find((port) => name === `server.allocations.${port.name}.port`)
    const variable = further?.variable ?? placeholderVariable(name)
    return Object.hasOwn(values, variable) ? variable : undefined
  }
  const value = shellLine(further?.command ?? template.startup, known)
  return [{ part: 'startup', name: wanted ?? 'default', value }]
}

function variableRows(values: Readonly<Record<string, string>>): PartRow[] {
  return Object.entries(values).map(([name, value]) => ({ part: 'variable', name, value }))
}

function fileRows(template: NewTemplate, values: Readonly<Record<string, string>>): PartRow[] {
  const known = { ...values, 'config.docker.interface': '127.0.0.1', 'config.docker.network.interface': '127.0.0.1' }
  return template.configFiles.flatMap(({ path, set }) =>
    set.map(({ key, value, ifValue }): PartRow => {
      const name = `${path} ${key}${ifValue === undefined ? '' : ` (where it is ${ifValue})`}`
      return { part: 'file', name, value: typeof value === 'string' ? fillPlaceholders(value, known) : value }
    }),
  )
}

/** What two templates or eggs say otherwise, whatever format each is in. */
export const diffTemplates: Action = async (run) => {
  const [from, to] = [run.args.required('from'), run.args.required('to')]
  if (from === '-' && to === '-') throw usage('only one of the two files can be stdin')
  const before = await readTemplateFile(from, run.terminal.stdin)
  const after = await readTemplateFile(to, run.terminal.stdin)
  const rows = differences(before.template, after.template)
  if (rows.length === 0) run.notice('the two say the same')
  await run.out.list(rows, DIFFERENCES)
}
