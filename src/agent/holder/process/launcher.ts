import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { chownSync, closeSync, constants, mkdirSync, openSync, writeFileSync } from 'node:fs'
import { Duplex } from 'node:stream'
import type { HolderPaths, LaunchFile } from '../holder-files.ts'
import { removeFolder } from '../own-files.ts'

/** The tools of the chain are looked up here and nowhere else. */
export const TOOL_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
/** Where the files folder is in a private mount namespace. */
export const PRIVATE_HOME = '/mnt/server'
/** How the chain says that it could not prepare the child. */
export const CHAIN_FAILED = 125

/**
 * The chain from the holder to the program: one shell that waits and keeps the exit code (`KEEP`), and one process that
 * becomes the program step by step, always under the same pid:
 *
 * `BEGIN` prints its pid and waits for the word; `setsid`, `prlimit`, the private mounts (`MOUNTS`), the user namespace of
 * descriptor 6 (`LOCK_USER_NAMESPACE`) and `setpriv` follow; `LAST` takes the environment from descriptor 3 and becomes the
 * program. Until then nothing of the server's environment is in force, so that no variable of a template (LD_PRELOAD …) works on a program that still runs as root.
 *
 * The code is written over the room that `makeFifos` has taken for it, so that it fits on a full disk as well: without it a
 * clean end would count as a crash, and nobody would hear of any end.
 * Descriptor 5 is the FIFO `alive`: the shell keeps it to itself, so that its end shows at once and to every holder.
 * When the holder dies before it gave the word, descriptor 3 ends and the child goes away without having run anything.
 */
const KEEP = `
out=$1
shift
( exec "$@" 2>&4 4>&- 5>&- )
code=$?
until echo "$code" 1<> "$out.new" && mv "$out.new" "$out"; do
  [ -d "\${out%/*}" ] || exit 1
  sleep 1
done 2> /dev/null
`
const BEGIN = `
cd "$1" || exit ${CHAIN_FAILED}
shift
echo "$$" >&3
read -r word <&3 && [ "$word" = go ] || exit ${CHAIN_FAILED}
exec "$@"
`
/** Folders of the machine that everybody may write to; a program gets its own ones, in memory that is counted as its. */
const SHARED_FOLDERS = ['/dev/shm', '/tmp', '/var/tmp', '/run/lock', '/dev/mqueue'] as const
/** Makes the private folders of a size, puts the present folder at its place, and goes on there. */
export const MOUNTS = `
mount -t tmpfs -o "size=$1,mode=755,nosuid,nodev" panel /mnt || exit ${CHAIN_FAILED}
shift
n=0
for folder in ${SHARED_FOLDERS.join(' ')}; do
  [ -d "$folder" ] || continue
  n=$((n + 1))
  mkdir -m 1777 "/mnt/$n" && mount --bind "/mnt/$n" "$folder" || exit ${CHAIN_FAILED}
done
mount -t tmpfs -o size=1m,mode=755,nosuid,nodev panel /mnt && mkdir ${PRIVATE_HOME} &&
mount --no-canonicalize --rbind . ${PRIVATE_HOME} && cd ${PRIVATE_HOME} || exit ${CHAIN_FAILED}
exec "$@"
`
/**
 * Puts folders of the machine into the present one, which becomes a mount of its own for that, and goes on there. It comes before
 * `MOUNTS`, which hides parts of the machine. The agent has looked at the folders, and made those that they lie over.
 */
export const BINDS = `
left=$1
shift
home=$(pwd -P) && mount --no-canonicalize --bind "$home" "$home" && cd "$home" || exit ${CHAIN_FAILED}
while [ "$left" -gt 0 ]; do
  mount --no-canonicalize --bind "$1" "$home/$2" &&
  mount --no-canonicalize -o "remount,bind,nosuid,nodev,$3" "$home/$2" || exit ${CHAIN_FAILED}
  shift 3
  left=$((left - 1))
done
exec "$@"
`
/** What a program runs in a user namespace before it gets its user: it takes away the namespaces of all that follows. */
export const LOCK_USER_NAMESPACE = `
{ echo 0 > /proc/sys/user/max_user_namespaces; } 2> /dev/null || exit ${CHAIN_FAILED}
exec "$@" 6<&-
`
const LAST = `
unset OLDPWD
eval "$(cat <&3)" || exit ${CHAIN_FAILED}
panel_complete 2> /dev/null || exit ${CHAIN_FAILED}
command -v "$1" > /dev/null || { echo "there is no program $1" >&3; exit 127; }
exec "$@" 3>&-
`

/**
 * Fresh FIFOs for a run; the child's user owns them, so that it can open /dev/stdout by its name. Beside them the room for
 * what the launcher will say: blanks that it writes over, and that are passed over by whoever reads them.
 */
export function makeFifos(paths: HolderPaths, uid: number | null): void {
  removeFolder(paths.io)
  mkdirSync(paths.io, { recursive: true, mode: 0o700 })
  for (const file of [`${paths.code}.new`, paths.diagnosis]) writeFileSync(file, ' '.repeat(128), { mode: 0o600 })
  const fifos = [paths.stdin, paths.stdout, paths.stderr]
  const made = spawnSync('mkfifo', ['-m', '600', ...fifos, paths.alive], { env: { PATH: TOOL_PATH }, encoding: 'utf8' })
  if (made.status !== 0) throw new Error(`mkfifo failed: ${made.stderr || String(made.error)}`)
  if (uid !== null) for (const fifo of fifos) chownSync(fifo, uid, uid)
}

/** The launched chain. `word` is descriptor 3: the child's pid comes up, the word and the environment go down. */
export interface Launched {
  readonly launcher: ChildProcess
  readonly word: Duplex
}

/** What the arguments of a run's chain carry, and those of its program do not. */
export function tokenOf(launchId: string): string {
  return `panel-launch-${launchId}`
}

/** What a chain is started with beside its launch file. */
interface LaunchOptions {
  /** The most files that may be open. */
  readonly nofile: number
  /** A descriptor of the user namespace that the program is locked into. */
  readonly userNamespace: number | undefined
  /** A descriptor of the terminal in place of the FIFOs; the program's session gets it as its own. */
  readonly terminal: number | undefined
}

/** Starts the chain; the child waits in `BEGIN` until it gets the word. */
export function launch(paths: HolderPaths, file: LaunchFile, options: LaunchOptions): Launched {
  const token = tokenOf(file.run.launchId)
  const argv = ['-c', KEEP, 'panel-keep', paths.code, ...childChain(file, options, token)]
  const diagnosis = openSync(paths.diagnosis, 'r+')
  // Open for both directions: no end of file and no SIGPIPE for the child, even when the holder is gone.
  const open = (path: string): number => openSync(path, constants.O_RDWR)
  const fifos =
    options.terminal === undefined ? ([paths.stdin, paths.stdout, paths.stderr] as const).map(open) : undefined
  const [stdin, stdout, stderr] = fifos ?? [options.terminal, options.terminal, options.terminal]
  const alive = open(paths.alive)
  try {
    const launcher = spawn('/bin/sh', argv, {
      stdio: [
        stdin,
        stdout,
        diagnosis,
        'pipe',
        stderr,
        alive,
        ...(options.userNamespace === undefined ? [] : [options.userNamespace]),
      ],
      cwd: '/',
      env: { PATH: TOOL_PATH },
      detached: true,
    })
    const word = launcher.stdio[3]
    if (!(word instanceof Duplex)) throw new Error('The launcher could not be started')
    return { launcher, word }
  } finally {
    for (const fd of [...(fifos ?? []), alive, diagnosis]) closeSync(fd)
  }
}

/** What the child says on descriptor 3: first its pid, and later why it could not become the program. */
export class Handshake {
  private text = ''

  constructor(word: Duplex) {
    word.on('data', (chunk: Buffer) => {
      this.text += chunk.toString('utf8')
    })
    word.on('error', () => undefined) // it ends with the child; whoever waits looks at the child
  }

  get pid(): number | undefined {
    return this.text.includes('\n') ? Number.parseInt(this.text, 10) : undefined
  }

  get complaint(): string {
    return this.text.slice(this.text.indexOf('\n') + 1).trim()
  }
}

/** Sends the word and the environment. From here on the child runs whether or not the holder lives. */
export function sendGo(word: Duplex, env: Readonly<Record<string, string>>): void {
  const lines = Object.entries(env).map(([name, value]) => `export ${name}=${quote(value)}`)
  // A function: its name is none of a variable's, and what was cut off does not make it.
  word.end(`go\n${lines.join('\n')}\npanel_complete() { :; }\n`)
}

function childChain(file: LaunchFile, options: LaunchOptions, token: string): string[] {
  const { nofile, userNamespace, terminal } = options
  const { uid, mounts } = file.run.isolation
  const limits = [`--core=0`, `--nofile=${nofile}`]
  if (uid !== null && file.run.limits.pids > 0) limits.push(`--nproc=${file.run.limits.pids}`)
  const chain = ['/bin/sh', '-c', BEGIN, token, file.files, 'setsid']
  if (terminal !== undefined) chain.push('--ctty')
  chain.push('prlimit', ...limits)
  if (mounts) {
    chain.push(...UNSHARE, ...bindsOf(file, token))
    chain.push('/bin/sh', '-c', MOUNTS, token, scratchSize(file.run.limits.memoryMb))
  }
  if (userNamespace !== undefined) chain.push(...ENTER_USER_NAMESPACE, '/bin/sh', '-c', LOCK_USER_NAMESPACE, token)
  if (uid !== null) {
    chain.push('setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--no-new-privs')
    chain.push('--inh-caps=-all', '--bounding-set=-all', '--')
  }
  return [...chain, '/bin/sh', '-c', LAST, token, ...file.argv]
}

function bindsOf({ mounts = [] }: LaunchFile, token: string): string[] {
  if (mounts.length === 0) return []
  const folders = mounts.flatMap(({ source, target, readOnly }) => [source, target, readOnly ? 'ro' : 'rw'])
  return ['/bin/sh', '-c', BINDS, token, String(mounts.length), ...folders]
}

/** Programs that are kept apart by their mounts have their own shared memory of the other kind (System V) as well. */
export const UNSHARE = ['unshare', '--mount', '--ipc', '--propagation', 'private'] as const
/** Enters the user namespace of descriptor 6. */
export const ENTER_USER_NAMESPACE = ['nsenter', '--user=/proc/self/fd/6', '--preserve-credentials'] as const

/** Private folders in memory hold as much as the server may use; without a limit half of the machine's memory, as is usual. */
function scratchSize(memoryMb: number): string {
  return memoryMb > 0 ? `${memoryMb}m` : '50%'
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
