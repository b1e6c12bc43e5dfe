import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ConsoleStage } from '../daemon/console-stage.ts'
import { DIST } from '../run-panel.ts'

/** `panel console logs -f` asks for history and then for the stream: what a game says in between is printed, once. */

let stage: ConsoleStage
beforeAll(async () => {
  stage = await ConsoleStage.open()
})
afterAll(() => stage.panel.close())
beforeEach(() => stage.begin())

let follower: ReturnType<typeof begin> | undefined
afterEach(async () => {
  await follower?.stop()
  follower = undefined
  await stage.end()
})

function follow(...words: string[]) {
  return begin('logs', '-f', ...words)
}

function begin(verb: string, ...words: string[]) {
  const child = spawn(process.execPath, [join(DIST, 'bin', 'panel.js'), 'console', verb, stage.game.id, ...words], {
    env: {
      HOME: stage.panel.home,
      PATH: process.env['PATH'],
      PANEL_URL: stage.panel.url,
      PANEL_TOKEN: stage.panel.adminToken,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const closed = once(child, 'close')
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  return {
    lines: () => stdout.split('\n').slice(0, -1),
    async printed(line: string): Promise<string[]> {
      await stage.peer.until(
        `the line "${line}" (${stderr})`,
        () => stdout.includes(`${line}\n`) || child.exitCode !== null,
      )
      expect(child.exitCode, stderr).toBeNull()
      return stdout.split('\n').slice(0, -1)
    },
    async stop(): Promise<void> {
      child.kill('SIGTERM')
      await closed
    },
  }
}

/** Has the game say a line when the node is asked for the first time behind the first answer to the program. */
function speakInBetween(
  text: string,
  isFirstAnswer: (request: { readonly op: string; readonly after?: number }) => boolean,
): void {
  const { peer, game } = stage
  let answers = 0
  let said = false
  peer.waitsFor = (request) => {
    if (request.op === 'console.fetch' && isFirstAnswer(request as { op: string; after?: number })) answers += 1
    const isBehind = request.op === 'console.subscribe' || answers > 1
    if (said || !isBehind) return undefined
    said = true
    peer.log(game.id).append(1, () => text)
    return undefined
  }
}

const isStartOfPage = ({ after }: { readonly after?: number }): boolean => after === Number.MAX_SAFE_INTEGER

describe('what is said between the history and the stream', { timeout: 60_000 }, () => {
  it('is printed when no line is as new as --since', async () => {
    stage.peer.say(stage.game.id, 5)
    speakInBetween('in between', isStartOfPage)
    follower = follow('--since', '1h')
    await follower.printed('in between')
    stage.peer.say(stage.game.id, 1, () => 'live')
    expect(await follower.printed('live')).toEqual(['in between', 'live'])
  })

  it('is printed when there are lines since then', async () => {
    stage.peer.say(stage.game.id, 5)
    speakInBetween('in between', isStartOfPage)
    follower = follow('--since', '2023-11-14T22:13:23.500Z')
    await follower.printed('in between')
    stage.peer.say(stage.game.id, 1, () => 'live')
    expect(await follower.printed('live')).toEqual(['line 4', 'line 5', 'in between', 'live'])
  })

  it('is printed when the log was empty', async () => {
    speakInBetween('in between', isStartOfPage)
    follower = follow('--since', '1h')
    await follower.printed('in between')
    stage.peer.say(stage.game.id, 1, () => 'live')
    expect(await follower.printed('live')).toEqual(['in between', 'live'])
  })

  it('is printed behind more lines than a stream begins with', async () => {
    stage.peer.say(stage.game.id, 4500)
    speakInBetween('in between', isStartOfPage)
    follower = follow('--tail', '4400')
    await follower.printed('in between')
    stage.peer.say(stage.game.id, 1, () => 'live')
    const lines = await follower.printed('live')
    expect(lines).toEqual([...Array.from({ length: 4400 }, (_, index) => `line ${index + 101}`), 'in between', 'live'])
  })

  it('is printed by attach as well behind more lines than a stream begins with', async () => {
    stage.peer.say(stage.game.id, 4500)
    speakInBetween('in between', isStartOfPage)
    follower = begin('attach', '--no-tui', '--read-only', '--tail', '4400')
    await follower.printed('in between')
    stage.peer.say(stage.game.id, 1, () => 'live')
    const lines = (await follower.printed('live')).map((line) => line.replace(/^\[[\d:]{8}\] /, ''))
    expect(lines).toEqual([...Array.from({ length: 4400 }, (_, index) => `line ${index + 101}`), 'in between', 'live'])
  })
})
