import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { gone, until } from '../../e2e/wait.ts'
import { openPane, type Pane } from './pane.ts'
import { type Peer, SERVER_ID, startPeer } from './peer.ts'

/** `panel console attach` in a pane, attached to a peer. */
export interface Attached {
  readonly pane: Pane
  readonly peer: Peer
  /** A folder of this screen alone; the shell of the pane stands in it. */
  readonly folder: string
  /** Types the shell line that attaches (again), with more words for `panel console attach`. */
  command(...words: string[]): Promise<void>
  /** The process of the screen that was started last. */
  pid(): Promise<number>
  /** The exit code of the screen that was started last, once it has ended. */
  exit(): Promise<number>
  /** What `stty` told before the last start, and after its end. */
  settings(): Promise<{ before: string; after: string }>
  close(): Promise<void>
}

export interface AttachOptions {
  readonly dist: string
  readonly columns: number
  readonly rows: number
  /** Called before the screen starts. */
  readonly prepare?: (peer: Peer) => void
  /** `false`: only the shell. */
  readonly start?: boolean
}

/** Starts a peer, a pane and the screen in it; ready when the screen is live. */
export async function attach(options: AttachOptions): Promise<Attached> {
  const peer = await startPeer()
  options.prepare?.(peer)
  const folder = await mkdtemp(join(tmpdir(), 'panel-tui-'))
  await writeContext(folder, peer)
  await writeFile(join(folder, 'attach'), script(options.dist, folder))
  await chmod(join(folder, 'attach'), 0o755)
  const pane = await openPane(options.columns, options.rows)
  const command = async (...words: string[]): Promise<void> => {
    await pane.text(['./attach', ...words].join(' '))
    await pane.keys('Enter')
  }
  const read = (name: string): Promise<string> => readFile(join(folder, name), 'utf8')
  const close = async (): Promise<void> => {
    await pane.close()
    // Hung up, the screen still writes its history, and the script around it how it ended.
    const pid = Number(await read('pid').catch(() => '0')) // never started
    if (pid > 0) await gone(pid)
    await peer.close()
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  }
  try {
    await pane.text(`cd ${folder} && clear`)
    await pane.keys('Enter')
    if (options.start !== false) {
      await command()
      await pane.shows('LIVE', 20_000)
    }
  } catch (error) {
    await close()
    throw error
  }
  return {
    pane,
    peer,
    folder,
    command,
    pid: async () => Number(await read('pid')),
    exit: () => until('the screen has ended', async () => Number(await read('exit'))),
    settings: async () => ({ before: await read('before'), after: await read('after') }),
    close,
  }
}

/** A context named `prod` that is the peer. */
async function writeContext(folder: string, peer: Peer): Promise<void> {
  await mkdir(join(folder, 'config'), { mode: 0o700 })
  const context = { current: 'prod', contexts: { prod: { url: peer.baseUrl } } }
  await writeFile(join(folder, 'config', 'cli.yaml'), JSON.stringify(context), { mode: 0o600 })
}

/** Attaches, and notes the process and the settings of the terminal before and after, untouched by a shell's own prompt. */
function script(dist: string, folder: string): string {
  const crash = pathToFileURL(join(import.meta.dirname, 'crash.mjs')).href
  const environment = [
    `HOME=${folder}`,
    `XDG_STATE_HOME=${folder}`,
    `PANEL_CONFIG_DIR=${folder}/config`,
    'PANEL_TOKEN=test-token',
  ].join(' ')
  const program = `node --import ${crash} ${join(dist, 'bin', 'panel.js')} console attach ${SERVER_ID} --tail 200`
  return [
    '#!/bin/bash',
    `cd ${folder}`,
    'rm -f pid after exit',
    // Outlives its terminal, to tell how the screen ended.
    "trap '' HUP",
    'stty -a > before',
    `bash -c 'echo $$ > pid; exec env ${environment} ${program} "$@"' attach "$@"`,
    'code=$?',
    'stty -a > after',
    // The last file, whole in the moment in which it is there.
    'echo $code > exit.new && mv exit.new exit',
    'echo "EXIT=$code"',
    '',
  ].join('\n')
}
