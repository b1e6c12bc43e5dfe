// @module-tag long
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServerPlace } from '../../../src/agent/runtime/runtime.ts'
import { skippedUnless } from '../../skips.ts'
import { allLines, holderPid, isLiving, LIMITS, texts, until } from '../runtime/rig.ts'
import { EngineStage, noEngine } from './engine-stage.ts'
import { Registry } from './registry.ts'

const missing = noEngine()
const WHY_NOT = skippedUnless(missing === undefined, missing ?? '')
const used: ServerPlace[] = []
let stage: EngineStage

describe.skipIf(missing !== undefined)(`containers${WHY_NOT}`, () => {
  beforeAll(async () => {
    stage = await EngineStage.begin()
  }, 60_000)

  afterAll(() => stage.end(used), 60_000)

  function place(serverId: string): ServerPlace {
    const made = stage.place(serverId)
    used.push(made)
    return made
  }

  it('run a program of the image, as a user of its own, in the folder of the server, and nothing is left of them', async () => {
    const at = place('plain')
    const script = 'id -u; pwd; echo "$WORD"; echo bad >&2; touch made; touch /etc/x; read x; echo "got $x"; exit 3'
    const run = await stage.start(at, script, { env: { WORD: `it's $HOME`, PATH: '/nowhere' } })
    await run.input('hello there')
    expect(await run.exited).toMatchObject({ code: 3, signal: null, oom: false, ordered: false })
    const said = await texts(at)
    expect(Number(said[0])).toBeGreaterThanOrEqual(70_000)
    expect(said.slice(1)).toEqual(['/home/container', "it's $HOME", 'got hello there'])
    expect(await texts(at, 'stderr')).toEqual(['bad', 'touch: /etc/x: Read-only file system'])
    expect(await texts(at, 'stdin')).toEqual(['hello there'])
    await until('no container', async () => !(await stage.containers()).includes('plain'))
  }, 30_000)

  it('say 200,000 lines at full speed, each once and in order', { timeout: 60_000 }, async () => {
    const at = place('flood')
    const run = await stage.start(at, 'seq 1 200000')
    expect(await run.exited).toMatchObject({ code: 0, lastSeq: 200_000 })
    const lines = await texts(at)
    expect(lines.findIndex((line, i) => line !== String(i + 1))).toBe(-1)
  })

  it('that need too much memory are said to', async () => {
    const at = place('hungry')
    const run = await stage.start(at, 'dd if=/dev/zero of=/dev/null bs=200M count=1; exit 4', {
      limits: { ...LIMITS, memoryMb: 32 },
    })
    expect(await run.exited).toMatchObject({ oom: true })
  }, 30_000)

  it('get each signal once, and end by it', async () => {
    const at = place('signals')
    const run = await stage.start(
      at,
      'trap "echo term" TERM; trap "echo int; exit 5" INT; echo up; while :; do sleep 0.05; done',
    )
    await until('up', async () => (await texts(at)).includes('up'))
    await run.signal('SIGTERM')
    await until('the signal', async () => (await texts(at)).includes('term'))
    await run.signal('SIGINT')
    expect(await run.exited).toMatchObject({ code: 5 })
    expect(await texts(at)).toEqual(['up', 'term', 'int'])
    const second = await stage.start(at, 'trap "" TERM; sleep 1000')
    await second.signal('SIGKILL')
    expect(await second.exited).toMatchObject({ code: null, signal: 'SIGKILL', oom: false })
  }, 30_000)

  it('show what they use and what they listen on', async () => {
    const at = place('usage')
    const run = await stage.start(at, 'echo up; while :; do :; done')
    await until('up', async () => (await texts(at)).includes('up'))
    await run.stats()
    const stats = await until('some use', async () => {
      const now = await run.stats()
      return (now.cpuCores ?? 0) > 0.2 && now
    })
    expect(stats.processes).toBe(2)
    await run.signal('SIGKILL')
    await run.exited
  }, 30_000)

  it('go on when the agent and their holder are killed, and no line is lost or doubled', async () => {
    const at = place('held')
    const run = await stage.start(at, 'i=0; while [ ! -e stop ]; do i=$((i+1)); echo line $i; done; echo done')
    const holder = await holderPid(at)
    await until('lines', async () => (await allLines(at)).length > 500)
    process.kill(holder, 'SIGKILL')
    await until('more lines', async () => (await texts(at)).length > 20_000)
    stage.go(at, 'stop')
    expect(await run.exited).toMatchObject({ code: 0 })
    await consecutive(at)
  }, 60_000)

  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'go on when the engine is ended by %s, and no line is lost or doubled',
    { timeout: 60_000 },
    async (signal) => {
      const at = place(`engine-${signal.toLowerCase()}`)
      const run = await stage.start(
        at,
        'i=0; while [ ! -e stop ]; do i=$((i+1)); echo line $i; [ $((i%100)) = 0 ] && sleep 0.01; done; echo done; read x; echo "got $x"',
      )
      await until('lines', async () => (await allLines(at)).length > 500)
      await stage.endEngine(signal)
      expect(isLiving(run.record.pid)).toBe(true)
      const before = (await texts(at)).length
      await stage.startEngine()
      await until('more lines', async () => (await texts(at)).length > before + 500)
      stage.go(at, 'stop')
      await until('the end of the lines', async () => (await texts(at)).includes('done'))
      await run.input('still there')
      expect(await run.exited).toMatchObject({ code: 0 })
      expect((await texts(at)).at(-1)).toBe('got still there')
      await consecutive(at, 2)
    },
  )

  it('that end while the engine is away are reported with their exit code when it is back', async () => {
    const at = place('away')
    const run = await stage.start(at, 'while [ ! -e go ]; do sleep 0.02; done; echo last words; exit 9')
    await stage.endEngine('SIGKILL')
    stage.go(at)
    await until('the end', () => !isLiving(run.record.pid))
    await stage.startEngine()
    expect(await run.exited).toMatchObject({ code: 9 })
    expect((await allLines(at)).at(-1)?.[3]).toMatch(/^last words$|its last lines may be missing/)
  }, 60_000)

  it('that are removed by hand are over, with a word of it', async () => {
    const at = place('removed')
    const run = await stage.start(at, 'echo up; sleep 1000')
    await until('up', async () => (await texts(at)).includes('up'))
    await stage.removeContainersOf('removed')
    expect(await run.exited).toMatchObject({ ordered: false })
    expect((await allLines(at)).at(-1)?.[3]).toMatch(/removed by somebody else|^up$/)
  }, 30_000)

  it('whose image is not there are not started, with the reason', async () => {
    const at = place('nothing')
    const refused = stage.start(at, 'true', { image: '127.0.0.1:1/nobody/game:7' })
    await expect(refused).rejects.toThrow(
      /The image 127\.0\.0\.1:1\/nobody\/game:7 could not be pulled: .*connection refused/,
    )
    await expect(stage.start(at, 'true', { image: '../x' })).rejects.toMatchObject({ code: 'BAD_REQUEST' })
    expect(await stage.runs.adopt(at)).toBeUndefined()
    const run = await stage.start(at, 'true', { argv: ['/no/such/program'] })
    expect(await run.exited).toMatchObject({ code: 127 })
    expect((await texts(at, 'stderr')).join()).toContain('/no/such/program')
  }, 30_000)

  it('are made of images that are pulled with what the node has for their registry, saying how far it is', {
    timeout: 60_000,
  }, async () => {
    const registry = await Registry.start(stage.folder)
    try {
      const image = `${registry.host}/team/game:2`
      await stage.push(image, { username: 'robot', password: 'secret' })
      const at = place('pulled')
      await expect(stage.start(at, 'echo up', { image })).rejects.toThrow(
        /could not be pulled: .*(?:no basic auth|unauthorized)/,
      )
      writeFileSync(join(stage.folder, 'password'), 'secret\n')
      stage.registries[registry.host] = { username: 'robot', passwordFile: join(stage.folder, 'password') }
      await (await stage.start(at, 'echo up', { image })).exited
      expect(await texts(at)).toEqual(['up'])
      expect(await texts(at, 'system')).toEqual(
        expect.arrayContaining([`Pulling the image ${image}`, `The image ${image} is there`]),
      )
      // Present, it is used whether or not the registry can be reached.
      await registry.stop()
      const again = await stage.start(at, 'echo again', { image })
      await again.exited
      expect((await texts(at)).at(-1)).toBe('again')
    } finally {
      await registry.stop()
    }
  })

  async function consecutive(at: ServerPlace, others = 1): Promise<void> {
    const lines = (await texts(at)).filter((line) => line.startsWith('line '))
    expect((await texts(at)).length).toBe(lines.length + others)
    expect(lines.findIndex((line, i) => line !== `line ${i + 1}`)).toBe(-1)
  }
})
