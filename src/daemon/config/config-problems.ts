import { accessSync, constants as modes, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { z } from 'zod'
import { fileProblem } from '../../shared/kernel/file-problem.ts'
import { nearestName } from '../../shared/kernel/nearest-name.ts'
import { readTextSync } from './config-files.ts'

/** The exit code of a start whose configuration is not valid. */
export const EXIT_CONFIG = 2

/** Everything that is wrong with the configuration, at once. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  constructor(problems: readonly string[]) {
    super(`The configuration is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`)
  }
}

/** The names of all settings of an object of sections, as people write them: `http.listen`. */
export function settingNames(sections: z.ZodObject): string[] {
  return Object.entries(sections.shape).flatMap(([section, schema]) =>
    Object.keys(fieldsOf(schema)).map((field) => `${section}.${field}`),
  )
}

/**
 * One line for each setting that an issue of the schema is about. Unknown names come with the one that may be meant; one that a
 * variable has given comes with the name of the variable.
 */
export function issueLines(
  issue: z.core.$ZodIssue,
  known: readonly string[],
  variables: ReadonlyMap<string, string>,
): string[] {
  const called = (name: string): string => (variables.has(name) ? `${variables.get(name)} (${name})` : name)
  if (issue.code !== 'unrecognized_keys') return [`${called(issue.path.join('.')) || 'the file'}: ${issue.message}`]
  const sections = [...new Set(known.map((name) => name.split('.', 1)[0] ?? ''))]
  return issue.keys.map((key) => {
    const name = [...issue.path, key].join('.')
    const nearest = nearestName(name, issue.path.length === 0 ? [...sections, ...known] : known)
    return `${called(name)}: there is no such setting${nearest === undefined ? '' : `; did you mean ${nearest}?`}`
  })
}

/** Certificate and key as they stand in their files; what is missing, unreadable or does not fit is a problem each. */
export function readTls(
  given: { readonly tlsCert?: string | undefined; readonly tlsKey?: string | undefined },
  problems: string[],
): { readonly cert: string; readonly key: string } | undefined {
  if (given.tlsCert === undefined && given.tlsKey === undefined) return undefined
  if (given.tlsCert === undefined || given.tlsKey === undefined) {
    problems.push('http.tlsCert and http.tlsKey belong together')
    return undefined
  }
  const cert = readPem('http.tlsCert', given.tlsCert, problems)
  const key = readPem('http.tlsKey', given.tlsKey, problems)
  if (cert === undefined || key === undefined) return undefined
  try {
    createSecureContext({ cert, key })
  } catch (error) {
    problems.push(`http.tlsCert, http.tlsKey: no certificate (PEM) with its own key: ${messageOf(error)}`)
    return undefined
  }
  return { cert, key }
}

function readPem(name: string, path: string, problems: string[]): string | undefined {
  try {
    return readTextSync(path)
  } catch (error) {
    problems.push(`${name}: ${fileProblem(path, error)}`)
    return undefined
  }
}

/** What keeps the daemon from writing into its data folder, which is made at the first start. */
export function dataFolderProblems(dataDir: string): string[] {
  const nearest = existingAbove(dataDir)
  try {
    if (!statSync(nearest).isDirectory()) return [`data.dir: ${nearest} is no folder`]
    accessSync(nearest, modes.W_OK | modes.X_OK)
    const database = join(dataDir, 'db', 'panel.db')
    if (nearest === dataDir && exists(database)) accessSync(database, modes.R_OK | modes.W_OK)
    return []
  } catch (error) {
    return [`data.dir: ${messageOf(error)}`]
  }
}

function existingAbove(path: string): string {
  return exists(path) || dirname(path) === path ? path : existingAbove(dirname(path))
}

function exists(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ENOTDIR')
  }
}

function fieldsOf(schema: unknown): Readonly<Record<string, unknown>> {
  const inner = schema instanceof z.ZodOptional ? schema.unwrap() : schema
  return inner instanceof z.ZodObject ? inner.shape : {}
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
