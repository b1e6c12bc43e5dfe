import { access, constants } from 'node:fs/promises'
import type { RuntimeName } from '../../shared/protocol/server-spec.ts'
import { AgentFailure } from '../failure.ts'
import { SERVER_PATH } from './environment.ts'

/** What a shell is wanted for. */
export interface ShellUse {
  readonly runtime: RuntimeName
  /** As in `the startup line`: the message begins with it. */
  readonly purpose: string
  /** Where programs are looked for, as in PATH. */
  readonly path?: string
}

/**
 * The program of a shell by its name or path. A process gets the machine's; `ash`, the shell of Alpine images, has its twin `sh` there.
 * What an image has is found out when its container starts. Rejects with UNSUPPORTED and what to do.
 */
export async function findShell(name: string, { runtime, purpose, path = SERVER_PATH }: ShellUse): Promise<string> {
  const base = baseOf(name)
  if (runtime === 'docker') return base === 'sh' ? '/bin/sh' : name
  const names = base === 'ash' ? ['ash', 'sh'] : [name]
  for (const candidate of names.flatMap((one) => placesOf(one, path))) {
    if (await isProgram(candidate)) return candidate
  }
  throw new AgentFailure(
    'UNSUPPORTED',
    `${purpose} is written for ${base}, which this node does not have: install ${base} there, or change the template`,
  )
}

/** The refusal of an engine that has not found the shell in the image, as one that says so; any other error as it is. */
export function withoutShell(
  error: unknown,
  { shell, image, purpose }: { shell: string; image: string; purpose: string },
): unknown {
  if (!(error instanceof AgentFailure) || !MISSING.test(error.message) || !error.message.includes(shell)) return error
  const message = `${purpose} is written for ${baseOf(shell)}, which the image ${image} does not have: choose another image, or change the template`
  return new AgentFailure('UNSUPPORTED', message, { cause: error })
}

/** What container runtimes say of a program that is not in the image. */
const MISSING = /executable file not found|no such file or directory|not found in \$PATH/i

function placesOf(name: string, path: string): string[] {
  return name.includes('/') ? [name] : path.split(':').map((folder) => `${folder}/${name}`)
}

function baseOf(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1)
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return true
  } catch {
    return false // that is the answer
  }
}
