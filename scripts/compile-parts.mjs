// Has V8 compile the parts of the program and writes down, beside each, what came of it. V8 compiles a function when it is
// called first, so the parts are not only loaded: the program runs for some seconds as it is started most often.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** For a daemon that does not say that it is ready, and for one that does not end. */
const MOST_MS = 60_000

/** Of this build alone: others of the machine reach the daemon too. */
const TOKEN = randomBytes(24).toString('hex')
const PASSWORD = `A 1 ${randomBytes(24).toString('hex')}`

/** What makes a panel in which there is something to see: what reads and shows a row is compiled only where there is one. */
const SETUP = [
  {
    args: ['setup', '--admin-email', 'a@trial.test', '--admin-username', 'trial', '--password-stdin'],
    input: PASSWORD,
  },
  { args: ['locations', 'create', '--name', 'trial'] },
  { args: ['nodes', 'create', '--name', 'trial', '--location', 'trial', '--memory', '1G', '--cpu', '1'] },
  { args: ['servers', 'create', '--name', 'trial', '--template', 'Demo game', '--node', 'trial'] },
]

/** What a daemon is asked for by its command line. */
const LISTS = [
  { args: ['servers', 'list', '-o', 'json'] },
  { args: ['servers', 'list'] },
  { args: ['nodes', 'list', '-o', 'json'] },
  { args: ['nodes', 'list'] },
]

/** `loader`: the text of `bin/parts.ts`; `entry`: the part that runs the program; `names`: all that only declare. */
export async function compileParts(folder, { loader, entry, names }) {
  const home = mkdtempSync(join(tmpdir(), 'panel-build-'))
  // Beside the parts: what they import from outside is looked for from where the program lies.
  const place = mkdtempSync(join(dirname(folder), '.trial-'))
  const cleaner = cleanerOf(home, place)
  try {
    const parts = `${loader}\nconst parts = exports.openParts(${JSON.stringify(folder)}, { isBuild: true })`
    const loads = names.map((name) => `parts.load(${JSON.stringify(name)})`)
    const load = program({ home, place, cleaner }, 'load', [parts, ...loads, 'parts.cache()'])
    const [code] = await once(load([], ['ignore', 2, 2]), 'exit')
    if (code !== 0) throw new Error('a part of the program cannot be loaded')
    const atEnd = `process.once('exit', () => {\n${OWN_FLAGS}\nparts.cache()\n})`
    const trial = program({ home, place, cleaner }, 'trial', [
      parts,
      atEnd,
      END_WITH_BUILD,
      `parts.load(${JSON.stringify(entry)})`,
    ])
    // Where no daemon can run, the parts have been loaded all the same.
    await tryDaemon(trial, home).catch((error) => process.stderr.write(`starts will be slower: ${error.message}\n`))
  } finally {
    const ended = once(cleaner, 'exit')
    cleaner.stdin.end()
    await ended
  }
}

/**
 * Removes the folders when its input ends: when this process and all that it has started, which hold the other end too, are done with it or
 * were killed. It is in no group that a terminal ends.
 */
function cleanerOf(...folders) {
  return spawn('sh', ['-c', 'cat && rm -rf "$@"', 'sh', ...folders], { stdio: ['pipe', 'ignore', 2], detached: true })
}

/** Writes a program down; what it answers starts it. */
function program({ home, place, cleaner }, name, lines) {
  const file = join(place, `${name}.cjs`)
  writeFileSync(file, lines.join('\n'))
  return (args, stdio) =>
    spawn(process.execPath, [file, ...args], { stdio: [...stdio, cleaner.stdin], env: environment(home) })
}

/** V8 takes what it has made only under the flags that it was made under: as they were before `keepHeapSmall`. */
const OWN_FLAGS = [
  '--heap-growing-percent=0',
  '--semi-space-growth-factor=2',
  '--incremental-marking-soft-trigger=0',
  '--incremental-marking-hard-trigger=0',
]
  .map((flag) => `require('node:v8').setFlagsFromString('${flag}')`)
  .join('\n')

/** A daemon whose build is ended from outside, and with it the other end of its input, does not stay behind. */
const END_WITH_BUILD = `if (process.argv[2] === 'daemon') process.stdin.once('end', () => process.kill(process.pid)).resume()`

/** A panel of its own: nothing of the surroundings gets in, and nobody but this machine reaches it. */
function environment(home) {
  return { PATH: process.env.PATH ?? '', HOME: home, PANEL_SETUP_TOKEN: TOKEN }
}

/**
 * Whoever ends writes anew what is known of each part, as far as it was known when he loaded the part and what he has run of it. Commands
 * load what a daemon has left, so theirs is written last: the second daemon ends without a word.
 */
async function tryDaemon(run, home) {
  const url = await withDaemon(run, home, { listen: '127.0.0.1:0', commands: [...SETUP, ...LISTS], end: 'SIGTERM' })
  await withDaemon(run, home, { listen: new URL(url).host, commands: LISTS, end: 'SIGKILL' })
}

/** Starts a daemon, asks it a few things and ends it; answers where it was. */
async function withDaemon(run, home, { listen, commands, end }) {
  const args = ['daemon', 'run', '--listen', listen, '--data-dir', join(home, 'data')]
  const daemon = run(args, ['pipe', 'pipe', 'ignore'])
  const timeout = setTimeout(() => daemon.kill('SIGKILL'), MOST_MS)
  const ended = once(daemon, 'exit')
  try {
    const url = await readyUrl(daemon)
    for (const { args, input = '' } of commands) {
      const command = run(args[0] === 'setup' ? [...args, '--url', url] : args, ['pipe', 'ignore', 'pipe'])
      let stderr = ''
      command.stderr.on('data', (text) => (stderr += text))
      command.stdin.end(input)
      const [code] = await once(command, 'close')
      if (code !== 0) throw new Error(`"panel ${args.join(' ')}" ended with ${code}: ${stderr}`)
    }
    return url
  } finally {
    daemon.kill(end)
    await ended
    clearTimeout(timeout)
  }
}

/** The daemon's address, which it logs when it is ready. */
function readyUrl(daemon) {
  let text = ''
  return new Promise((resolve, reject) => {
    daemon.stdout.setEncoding('utf8').on('data', (piece) => {
      text += piece
      const url = /"url":"(http:[^"]+)".*"daemon ready"/.exec(text)?.[1]
      if (url !== undefined) resolve(url)
    })
    daemon.once('close', () => reject(new Error(`a daemon does not start: ${text}`)))
  })
}
