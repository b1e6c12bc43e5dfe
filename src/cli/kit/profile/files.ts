import { promises, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { CliFailure } from '../failure.ts'
import { plainYaml } from './plain-yaml.ts'

/** The value of a YAML file; `undefined` when there is none. A file that cannot be read or parsed is exit 2. */
export async function readYaml(path: string): Promise<unknown> {
  return parsed(path, firstLineOf)
}

async function parsed(path: string, reasonOf: (error: unknown) => string): Promise<unknown> {
  const text = readIfThere(path)
  if (text === undefined) return undefined
  const plain = plainYaml(text)
  if (plain !== undefined) return plain
  const { parse } = await import('yaml')
  try {
    return parse(text)
  } catch (error) {
    throw new CliFailure('FILE_UNREADABLE', `${path} is not valid YAML: ${reasonOf(error)}`, { cause: error })
  }
}

/** As {@link readYaml}, but refuses a file that others can read, and shows nothing of it. */
export async function readPrivateYaml(path: string): Promise<unknown> {
  refuseExposed(path)
  return parsed(path, lineOf)
}

/** The lines below it show the text around the place. */
function firstLineOf(error: unknown): string {
  return messageOf(error).split('\n', 1)[0]?.replace(/:$/, '') ?? ''
}

/** Even the first line can have a word of the file in it. */
function lineOf(error: unknown): string {
  const at = /at line \d+/.exec(messageOf(error))?.[0]
  return at === undefined ? 'it cannot be parsed' : `look ${at}`
}

/** Writes a file that only its owner can read, whole or not at all; its folder is made 0700. */
export async function writePrivateYaml(path: string, value: unknown): Promise<void> {
  const { stringify } = await import('yaml')
  await writePrivateFile(path, stringify(value))
}

/** Writes a file 0600, whole or not at all, and flushes it to the disk. */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  const folder = dirname(path)
  const { chmod, mkdir, open, rename, rm } = promises // loaded here, as only those who write need it
  const { randomBytes } = await import('node:crypto') // which takes a while to load, and is for writing alone
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const file = await open(temporary, 'wx', 0o600)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await chmod(temporary, 0o600)
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined) // what has failed before is what counts
    throw new CliFailure('FILE_UNREADABLE', `${path} cannot be written: ${messageOf(error)}`, { cause: error })
  }
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (isMissing(error)) return undefined
    throw new CliFailure('FILE_UNREADABLE', `${path} cannot be read: ${messageOf(error)}`, { cause: error })
  }
}

function refuseExposed(path: string): void {
  if (process.platform === 'win32') return
  const mode = modeOf(path)
  if (mode === undefined || (mode & 0o077) === 0) return
  throw new CliFailure('CREDENTIALS_EXPOSED', `${path} can be read by others (mode ${(mode & 0o777).toString(8)})`, {
    hint: `chmod 600 ${path}`,
  })
}

/** The mode of a file; `undefined` when there is none. */
function modeOf(path: string): number | undefined {
  try {
    return statSync(path).mode
  } catch (error) {
    if (isMissing(error)) return undefined
    throw new CliFailure('FILE_UNREADABLE', `${path} cannot be read: ${messageOf(error)}`, { cause: error })
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
