import { readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileProblem, kindProblem } from '../../shared/kernel/file-problem.ts'

/** The text of a file; throws for what is none. Nothing else of the process goes on meanwhile. */
export function readTextSync(path: string): string {
  const problem = kindProblem(path, statSync(path))
  if (problem !== undefined) throw new Error(problem)
  return readFileSync(path, 'utf8')
}

/** The certificates of a file in PEM form. */
export function readCa(path: unknown, problems: string[]): string | undefined {
  if (typeof path !== 'string') return undefined
  try {
    const pem = readTextSync(resolve(path))
    if (pem.includes('-----BEGIN CERTIFICATE-----')) return pem
    problems.push(`smtp.caFile: ${path} holds no certificate in PEM form`)
  } catch (error) {
    problems.push(`smtp.caFile: ${fileProblem(path, error)}`)
  }
  return undefined
}

/** The value of a secret variable, of the file that `<NAME>_FILE` names, or of the systemd credential of that name. */
export function readSecret(
  name: string,
  env: Readonly<Record<string, string | undefined>>,
  problems: string[],
): string | undefined {
  const direct = env[name]
  if (direct !== undefined && direct !== '') return direct
  const credentials = env['CREDENTIALS_DIRECTORY']
  const systemd =
    credentials === undefined
      ? undefined
      : join(credentials, name.replace('PANEL_', '').toLowerCase().replaceAll('_', '-'))
  const path = env[`${name}_FILE`] ?? systemd
  if (path === undefined) return undefined
  try {
    return readTextSync(resolve(path)).trim()
  } catch (error) {
    const isNamed = env[`${name}_FILE`] !== undefined
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    if (isNamed || !isMissing) problems.push(`${isNamed ? `${name}_FILE` : name}: ${fileProblem(path, error)}`)
    return undefined
  }
}
