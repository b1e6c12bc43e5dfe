import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join, relative } from 'node:path'
import { Duplex, type Readable } from 'node:stream'
import { folderAbove, programFolder } from '../../../shared/platform/program-folder.ts'
import { LoadProblem } from './failures.ts'

/** The tools of the chain are looked up here and nowhere else. */
const TOOL_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
/** Beside the heap of JavaScript a process has code, stacks of threads and buffers. */
const BESIDE_HEAP_MB = 256
const MEBI = 1024 * 1024
/** The host's main file, from the folder that the program is built into. */
const HOST = join('src', 'plugin-host', 'main.js')

/** What a plugin's process is started with. */
export interface Launch {
  readonly name: string
  readonly folder: string
  readonly memoryMb: number
  /** The user it runs as; `null`: that of the daemon, which is not root. */
  readonly uid: number | null
  /** A variable of its environment by which it is recognised. */
  readonly mark: string
}

/** A started process with its pipe and its outputs. */
export interface Launched {
  readonly child: ChildProcess
  readonly pipe: Duplex
  readonly outputs: readonly [stdout: Readable, stderr: Readable]
}

/**
 * Starts the process of a plugin: limits of the kernel, no new privileges, a user of its own where the daemon is root, a
 * clean environment, the plugin's folder as working folder. It ends when the daemon's process ends, however that happens.
 *
 * The program is loaded through descriptor 4 and the plugin through the working folder, so that the plugin's user need not be
 * able to enter the folders above either.
 */
export function launchPlugin(launch: Launch): Launched {
  const { root, main } = programPlace()
  const program = openSync(root, 'r')
  try {
    const [command = '', ...args] = [...chainOf(launch), `/proc/self/fd/4/${main}`]
    const child = spawn(command, args, {
      cwd: launch.folder,
      env: environmentOf(launch),
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', program],
      detached: true,
    })
    const pipe = child.stdio[3]
    const { stdout, stderr } = child
    if (!(pipe instanceof Duplex) || stdout === null || stderr === null)
      throw new LoadProblem('it could not be started')
    return { child, pipe, outputs: [stdout, stderr] }
  } finally {
    closeSync(program)
  }
}

function chainOf({ uid, memoryMb }: Launch): string[] {
  const limits = ['--core=0', '--nofile=1024', `--fsize=${256 * MEBI}`, `--data=${(memoryMb + BESIDE_HEAP_MB) * MEBI}`]
  const own =
    uid === null ? [] : [`--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--inh-caps=-all', '--bounding-set=-all']
  return [
    'prlimit',
    ...limits,
    ...(uid === null ? [] : ['--nproc=64']),
    'setpriv',
    ...own,
    '--no-new-privs',
    '--pdeathsig=KILL',
    '--',
    process.execPath,
    `--max-old-space-size=${memoryMb}`,
    '--preserve-symlinks',
    '--preserve-symlinks-main',
  ]
}

function environmentOf({ name, folder, mark }: Launch): Record<string, string> {
  const [variable = '', value = ''] = mark.split('=')
  return { PATH: TOOL_PATH, HOME: folder, LANG: 'C.UTF-8', TZ: 'UTC', PANEL_PLUGIN: name, [variable]: value }
}

/** The folder with the program's package file, which says that its files are modules, and the host's main file below it. */
function programPlace(): { root: string; main: string } {
  const built = folderAbove(import.meta.dirname, HOST)
  const root = programFolder(import.meta.dirname)
  if (built === undefined || root === undefined)
    throw new Error(`there is no built program above ${import.meta.dirname}`)
  return { root, main: relative(root, join(built, HOST)) }
}
