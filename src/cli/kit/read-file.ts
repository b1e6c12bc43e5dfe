import { promises } from 'node:fs'
import { fileProblem } from '../../shared/kernel/file-problem.ts'
import { CliFailure } from './failure.ts'
import { readAll } from './terminal.ts'

/** The text of a file; exit 2 when it cannot be read. */
export async function readText(path: string): Promise<string> {
  try {
    return await promises.readFile(path, 'utf8')
  } catch (error) {
    throw new CliFailure('FILE_UNREADABLE', `${path} cannot be read: ${fileProblem(path, error)}`, { cause: error })
  }
}

/** The bytes of a file; exit 2 when it cannot be read. */
export async function readBytes(path: string): Promise<Uint8Array> {
  try {
    return await promises.readFile(path)
  } catch (error) {
    throw new CliFailure('FILE_UNREADABLE', `${path} cannot be read: ${fileProblem(path, error)}`, { cause: error })
  }
}

/** The object in a YAML or JSON file, `-` is stdin; exit 2 when it is none. */
export async function readObject(
  path: string,
  stdin: AsyncIterable<Buffer | string>,
): Promise<Record<string, unknown>> {
  return parseObject(path, await readInput(path, stdin))
}

/** The text of a file, `-` is stdin; exit 2 when it cannot be read. */
export async function readInput(path: string, stdin: AsyncIterable<Buffer | string>): Promise<string> {
  return path === '-' ? readAll(stdin) : readText(path)
}

/** The object that the text of a file says in YAML or JSON; exit 2 when it is none. */
export async function parseObject(path: string, text: string): Promise<Record<string, unknown>> {
  const { parse } = await import('yaml')
  let value: unknown
  try {
    value = parse(text)
  } catch (error) {
    const reason = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)
    throw new CliFailure('FILE_UNREADABLE', `${path} is not valid YAML or JSON: ${reason}`, { cause: error })
  }
  refuseCircle(path, value)
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value }
  throw new CliFailure('FILE_UNREADABLE', `${path} must hold one object`)
}

/** An alias of YAML may name what it stands in, which no request can hold. */
function refuseCircle(path: string, value: unknown): void {
  try {
    JSON.stringify(value)
  } catch (error) {
    throw new CliFailure('FILE_UNREADABLE', `${path} has an alias inside of what it names`, { cause: error })
  }
}

/** `NAME=value` lines, as in `.env` files; blank lines and `#` comments are skipped. */
export async function readPairs(path: string): Promise<Record<string, string>> {
  const lines = (await readText(path)).split(/\r?\n/)
  return Object.fromEntries(
    lines.flatMap((line) => {
      if (/^\s*(#|$)/.test(line)) return []
      return [parsePair(line.replace(/^\s*export\s+/, ''), path)]
    }),
  )
}

/** Splits `NAME=value`. */
export function parsePair(text: string, where: string): [string, string] {
  const at = text.indexOf('=')
  if (at < 1) throw new CliFailure('USAGE', `${where}: '${text}' is not NAME=value`)
  return [text.slice(0, at).trim(), text.slice(at + 1)]
}
