// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createServer, updateServer } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import type { DoneRule, ServerSpec } from '../../src/shared/protocol/server-spec.ts'
import { AgentStage, gameSpec } from '../agent/agent-stage.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { longestStall } from './stall.ts'

// Whoever may write templates: neither the daemon that saves one nor the agent that runs its games can be held up.

const LARGE = '(?:x?.){999}[yz]'
const twenty = (value: string): DoneRule[] =>
  Array.from({ length: 20 }, (_, number) => ({ kind: 'regex', value: `${value}|${number}` }))

describe('a template with expressions that are too large', () => {
  let panel: TestPanel
  beforeAll(async () => {
    panel = await startPanel()
  })
  afterAll(() => panel.close())

  const save = (fields: Record<string, unknown>) =>
    panel.client.call(createTemplate, { body: { name: `t${performance.now()}`, startup: 'x', ...fields } })
  const variable = (name: string, rules: string[], value = '') => ({ name, rules, default: value })

  it.each([
    ['repeats too much', 'a counted group', { startupDetection: { done: [{ kind: 'regex', value: LARGE }] } }],
    [
      'repeats too much',
      'counts within counts',
      { startupDetection: { done: [{ kind: 'regex', value: '((a{1,30}){1,30}){1,1}' }] } },
    ],
    ['repeats too much', 'many large ones', { startupDetection: { done: twenty('(?:x?.){300}[yz]') } }],
    [
      'repeats too much',
      'a rule of a variable',
      { variables: [variable('A', [`regex:/${LARGE}/`], 'x'.repeat(4096))] },
    ],
    [
      'too large together',
      'rules of many variables',
      {
        variables: Array.from({ length: 200 }, (_, number) =>
          variable(`A${number}`, Array(20).fill('not_regex:/(?:x?.){190}[yz]/'), 'x'.repeat(4096)),
        ),
      },
    ],
    ['repeats too much', 'a rule of counts alone', { variables: [variable('A', [`regex:/${'a{999}'.repeat(80)}/`])] }],
  ])('is refused, by its field and at once, as it %s: %s', async (why, _, fields) => {
    let refused: unknown
    const stall = await longestStall(async () => {
      refused = await save(fields).catch((error: unknown) => error)
    })
    expect(refused).toMatchObject({ code: 'VALIDATION_ERROR' })
    expect(JSON.stringify(refused)).toContain(why)
    // A tenth of that on a quiet machine; unbounded, it would be minutes.
    expect(stall).toBeLessThan(3000)
  })

  it.each(['startup', 'stopCommand', 'installScript', 'installEntrypoint'])('has no NUL in %s', async (field) => {
    await expect(save({ [field]: 'echo \0' })).rejects.toMatchObject({
      code: 'VALIDATION_ERROR',
      details: [{ field: `body.${field}`, message: 'must not contain the character NUL' }],
    })
  })

  it.each(['OPTIND', 'PPID', '_', 'SECONDS', 'BASHOPTS'])('has no variable of the shell: %s', async (name) => {
    await expect(save({ variables: [variable('FINE', []), variable(name, [])] })).rejects.toMatchObject({
      code: 'VALIDATION_ERROR',
      details: [{ field: 'body.variables.1.name', message: expect.stringContaining('choose another name') }],
    })
  })

  it('puts no value where a shell may read it otherwise, nor does a startup line of a server', async () => {
    const startup = `"$(case a in a) printf '[%s]' {{X}};; esac)"`
    const refused = (field: string) => ({
      code: 'VALIDATION_ERROR',
      details: [{ field: `body.${field}`, message: expect.stringContaining('use if, or move the case out') }],
    })
    await expect(save({ startup })).rejects.toMatchObject(refused('startup'))
    const { id: templateId } = await save({})
    const sizes = { allocatedMemoryMb: 16, allocatedCpuCores: 0.1, allocatedDiskMb: 16 }
    const place = { nodeId: panel.nodeId as never, locationId: panel.locationId as never, templateId }
    const body = { name: 'lines', primaryPort: 25_000, ...place, ...sizes }
    await expect(panel.client.call(createServer, { body: { ...body, startupCommand: startup } })).rejects.toMatchObject(
      refused('startupCommand'),
    )
    const { id: serverId } = await panel.client.call(createServer, { body })
    const edit = panel.client.call(updateServer, { params: { serverId }, body: { startupCommand: startup } })
    await expect(edit).rejects.toMatchObject(refused('startupCommand'))
  })

  it('is no template that people write', async () => {
    const done = ['\\[.*INFO\\]: Done \\(\\d+\\.\\d+s\\)!', '^Server .{1,255} is up$', '(?i)listening on [\\w.:]+'].map(
      (value) => ({ kind: 'regex', value }),
    )
    const variables = Array.from({ length: 30 }, (_, number) =>
      variable(`V${number}`, ['required', 'regex:/^([\\w\\d._-]+)(\\.jar)$/'], 'server-1.20.4.jar'),
    )
    await expect(save({ startupDetection: { done }, variables })).resolves.toMatchObject({ startupDetection: { done } })
  })

  it('does not hold up who makes a server with a long value', async () => {
    const rules = ['nullable', 'regex:/^(?:x?.){190}[yz]/']
    const variables = Array.from({ length: 5 }, (_, number) => variable(`V${number}`, rules))
    const { id: templateId } = await save({ variables })
    const environment = Object.fromEntries(variables.map(({ name }) => [name, 'x'.repeat(100_000)]))
    const sizes = { allocatedMemoryMb: 64, allocatedCpuCores: 0.1, allocatedDiskMb: 64 }
    const place = { nodeId: panel.nodeId, locationId: panel.locationId, primaryPort: 23_456 }
    const body = { name: 'slow', templateId, environment, ...sizes, ...place } as never
    const stall = await longestStall(async () => {
      await expect(panel.client.call(createServer, { body })).rejects.toMatchObject({ code: 'VALIDATION_ERROR' })
    })
    // A tenth of that on a quiet machine; unbounded, it would be minutes.
    expect(stall).toBeLessThan(3000)
  })
})

describe('ready rules that never end', () => {
  let stage: AgentStage
  const used: string[] = []

  beforeAll(async () => {
    stage = await AgentStage.enter()
    await stage.startAgent()
  }, 60_000)
  afterAll(async () => {
    await stage.leave(used)
  }, 60_000)

  /** Prints lines of 4 kB that nearly match, and then waits. */
  const FLOOD = `line=$(head -c 4000 /dev/zero | tr '\\0' x); i=0; while [ $i -lt 60 ]; do echo "$line"; i=$((i+1)); done
echo up; while read -r line; do [ "$line" = stop ] && exit 0; done`

  function flooded(name: string, done: readonly DoneRule[], startup = FLOOD): ServerSpec {
    used.push(name)
    return gameSpec(name, 1, { done: [...done], startup })
  }

  /** How long the agent needs to say that a server is there already. */
  async function answerMs(serverId: string): Promise<number> {
    const begun = performance.now()
    await stage.peer.request({ op: 'console.unsubscribe', serverId })
    return performance.now() - begun
  }

  async function longestAnswerMs(serverId: string): Promise<number> {
    let longest = 0
    for (let i = 0; i < 20; i++) longest = Math.max(longest, await answerMs(serverId))
    return longest
  }

  it('of a template from before are switched off with a reason, and the rules beside them count', async () => {
    const id = 'srv_before'
    const done = [...twenty(LARGE).slice(0, 5), { kind: 'contains', value: 'up' } as const]
    await stage.peer.order(id, 1, { op: 'start', spec: flooded(id, done) })
    expect(await longestAnswerMs(id)).toBeLessThan(1500)
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    const why = /^The ready rule ".{1,100}" is switched off: it has more than 1000 steps/
    expect(stage.peer.reports(id).some(({ power, reason }) => power === 'starting' && why.test(reason ?? ''))).toBe(
      true,
    )
    await stage.peer.request({ op: 'console.subscribe', serverId: id, tail: 100 })
    await stage.peer.until('the remark', () =>
      stage.peer.lines(id).some(([, , stream, text]) => stream === 'system' && text.includes('is switched off')),
    )
  })

  it('within the bounds of a template are given up in time, also after a restart of the agent', {
    timeout: 60_000,
  }, async () => {
    const id = 'srv_slow'
    const spec = flooded(id, twenty('(?:x?.){180}[yz]'))
    await stage.peer.order(id, 1, { op: 'start', spec })
    expect(await longestAnswerMs(id)).toBeLessThan(1500)
    const slow = ({ reason }: { reason: string | null }): boolean =>
      reason?.includes('takes too long to match') === true
    const first = await stage.peer.report(id, 'the reason', slow)
    expect(first.power).toBe('starting')
    const before = stage.peer.of('snapshot').length
    await stage.killAgent()
    await stage.startAgent()
    expect(stage.peer.of('snapshot').length).toBe(before + 1)
    expect(await longestAnswerMs(id)).toBeLessThan(1500)
    expect((await stage.peer.order(id, 2, { op: 'kill' })).ok).toBe(true)
  })

  it('hold up no other server that starts', async () => {
    const [slow, quick] = ['srv_slow2', 'srv_quick']
    await stage.peer.order(slow, 1, { op: 'start', spec: flooded(slow, twenty('(?:x?.){180}[yz]')) })
    const done = [{ kind: 'regex', value: '^u(p|s)$' } as const]
    await stage.peer.order(quick, 1, { op: 'start', spec: flooded(quick, done, 'echo up; sleep 100') })
    const running = await stage.peer.report(quick, 'running', ({ power }) => power === 'running')
    expect(running.reason).toBeNull()
  })

  it('that are asked line by line leave nothing behind in the agent', async () => {
    const id = 'srv_drip'
    const startup = 'i=0; while [ $i -lt 40 ]; do echo "$i"; i=$((i+1)); sleep 0.02; done; echo up; sleep 100'
    await stage.peer.order(id, 1, { op: 'start', spec: flooded(id, [{ kind: 'contains', value: 'up' }], startup) })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    expect(stage.output).not.toMatch(/MaxListenersExceeded/)
  })

  it('of many escapes and of texts that nearly match are looked at in time', async () => {
    const id = 'srv_escapes'
    const startup = `line=$(head -c 15000 /dev/zero | tr '\\0' a)
i=0; while [ $i -lt 100 ]; do printf '\\033]%s\\033[%s\\n' "$line" "1;1;1;1;1;1;1;1;1;1;"; i=$((i+1)); done
printf 'u\\033[1mp\\033[0m\\n'; sleep 100`
    const rules = twenty('a').map((_, number): DoneRule => ({ kind: 'contains', value: `${'a'.repeat(400)}${number}` }))
    const spec = { ...flooded(id, [...rules, { kind: 'regex', value: '^up$' }], startup), stripAnsi: true }
    await stage.peer.order(id, 1, { op: 'start', spec })
    expect(await longestAnswerMs(id)).toBeLessThan(1500)
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
  })
})
