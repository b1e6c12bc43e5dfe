import type { NewTemplate } from '../../../shared/api/template-fields.ts'
import { TemplateToCreate } from '../../../shared/api/templates.ts'
import { type FieldProblem, PanelError } from '../../../shared/kernel/errors.ts'
import { mustBe } from '../../../shared/kernel/refusal-words.ts'
import { strictBody } from '../../../shared/kernel/strict-body.ts'
import { DocumentProblem, readDocument } from '../../../shared/templates/document.ts'
import { EggProblem, type ImportedEgg, importEgg, isEgg } from '../../../shared/templates/egg-import.ts'
import { templateProblems } from '../../../shared/templates/template-problems.ts'
import { CliFailure } from '../../kit/failure.ts'
import { parseObject, readInput } from '../../kit/read-file.ts'

type Stdin = AsyncIterable<Buffer | string>

/** A template as a file says it, or as the egg in it becomes one. */
export interface TemplateFile {
  readonly template: NewTemplate
  /** What became of the egg; `null` for a file of this panel. */
  readonly egg: ImportedEgg | null
}

/** The template in a file, read as the panel would read it; exit 2 for no document, exit 8 with all reasons for one that it would refuse. */
export async function readTemplateFile(path: string, stdin: Stdin): Promise<TemplateFile> {
  const value = await readEither(path, stdin)
  if (isEgg(value)) {
    const egg = imported(value)
    return { template: egg.template, egg }
  }
  const parsed = strictBody(TemplateToCreate).safeParse(value, { error: mustBe })
  if (!parsed.success) {
    throw refusal(parsed.error.issues.map((issue) => ({ field: issue.path.join('.'), message: issue.message })))
  }
  const { egg: _egg, ...template } = parsed.data
  const problems = templateProblems(template)
  if (problems.length > 0) throw refusal(problems)
  return { template, egg: null }
}

/** The egg in a file as it stands there; exit 2 when it is none. */
export async function readEggDocument(path: string, stdin: Stdin): Promise<Record<string, unknown>> {
  const value = await readEither(path, stdin)
  if (isEgg(value)) return { ...value }
  throw new CliFailure('FILE_UNREADABLE', `${path} holds no egg of Pterodactyl or Pelican`, {
    hint: `panel templates create -F ${path}`,
  })
}

/** The body of a new template: that of the file, or the template that the egg in it becomes. */
export async function readNewTemplate(path: string, stdin: Stdin): Promise<Record<string, unknown>> {
  const value = await readEither(path, stdin)
  if (!isEgg(value)) return { ...value }
  const { template, document } = imported(value)
  return { ...template, egg: document }
}

/** The body of a change: that of the file; an egg goes as it is, so that only what it describes is replaced. */
export async function readTemplatePatch(path: string, stdin: Stdin): Promise<Record<string, unknown>> {
  return { ...(await readEither(path, stdin)) }
}

/** An egg is read with the texts that its exporter wrote without quotes; other files as all files are. */
async function readEither(path: string, stdin: Stdin): Promise<Readonly<Record<string, unknown>>> {
  const text = await readInput(path, stdin)
  const value = await parseObject(path, text)
  if (!isEgg(value)) return value
  try {
    return readDocument(text).value
  } catch (error) {
    if (error instanceof DocumentProblem)
      throw new CliFailure('FILE_UNREADABLE', `${path} ${error.message}`, { cause: error })
    throw error
  }
}

function imported(value: unknown): ImportedEgg {
  try {
    return importEgg(value)
  } catch (error) {
    throw error instanceof EggProblem ? refusal(error.details) : error
  }
}

/** With its fields as the panel names them, as parts of the body. */
function refusal(problems: readonly FieldProblem[]): PanelError {
  const details = problems.map(({ field, message }) => ({ field: `body.${field}`, message }))
  const [first] = details
  const message = `The panel would refuse this: ${first?.field ?? ''} ${first?.message ?? ''}`
  return new PanelError('VALIDATION_ERROR', message, { details })
}
