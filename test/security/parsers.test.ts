import { Cron } from 'croner'
import { describe, expect, it } from 'vitest'
import { parse as parseYaml } from 'yaml'
import { z } from 'zod'
import { LineSplitter } from '../../src/agent/console/log/line-splitter.ts'
import { MAX_LINE_BYTES } from '../../src/agent/console/log/record.ts'
import { startupCommand } from '../../src/agent/server/environment.ts'
import { csvLine } from '../../src/cli/kit/output/csv.ts'
import { consoleText, plainText } from '../../src/cli/kit/output/escape.ts'
import { displayWidth } from '../../src/cli/kit/output/table.ts'
import { yamlText } from '../../src/cli/kit/output/yaml-text.ts'
import { readLine, plainText as screenText } from '../../src/cli/tui/log/ansi.ts'
import { fitText, textWidth } from '../../src/cli/tui/log/cut.ts'
import { readLevel } from '../../src/cli/tui/log/level.ts'
import { maskSecrets, maskText } from '../../src/daemon/core/masking.ts'
import { errorEntry } from '../../src/daemon/core/system-error-entry.ts'
import { canonicalIp, expandIps, expandPorts } from '../../src/daemon/features/fleet/nodes/addresses.ts'
import { parseIp, parseNetwork } from '../../src/daemon/features/fleet/nodes/ip-numbers.ts'
import { isNewer, versionIn } from '../../src/daemon/features/operations/updates/version-order.ts'
import { inRange, isRange } from '../../src/daemon/features/plugins/engine-range.ts'
import { parseFrame } from '../../src/daemon/features/plugins/frames.ts'
import { hostFailure } from '../../src/daemon/features/servers/databases/host-failure.ts'
import { mailFailure } from '../../src/daemon/features/signals/mail/mail-failure.ts'
import { formatFor, shownUrl, targetProblem } from '../../src/daemon/features/signals/webhooks/target-url.ts'
import { readFrame } from '../../src/daemon/gateway/wire.ts'
import { agentText } from '../../src/shared/kernel/agent-text.ts'
import { isDeeperThan } from '../../src/shared/kernel/json-depth.ts'
import { patternSteps } from '../../src/shared/kernel/pattern-steps.ts'
import { HostName, parseSender } from '../../src/shared/kernel/setting-values.ts'
import { jsonText, oneLine, terminalText } from '../../src/shared/kernel/terminal-text.ts'
import { parseDuration } from '../../src/shared/kernel/time.ts'
import { countedAddress } from '../../src/shared/platform/counted-address.ts'
import { gameSpec } from '../agent/agent-stage.ts'
import { cpuMs } from './pattern-search.ts'

/** Everything that reads text of others, beside single expressions (patterns.test.ts). */
const PARSERS: Readonly<Record<string, (text: string) => unknown>> = {
  'a console line on the screen': readLine,
  'a console line, plain': screenText,
  'a console line of the line mode': consoleText,
  'a console line in a file': plainText,
  'the level of a line': (text) => readLevel(text, 'stdout', 'info'),
  // The log keeps longer lines in pieces of this size.
  'the width of a text on the screen': (text) => textWidth(text.slice(0, MAX_LINE_BYTES)),
  'a text that is cut for the screen': (text) => fitText(text.slice(0, MAX_LINE_BYTES), 40),
  'the width of a cell': displayWidth,
  'a cell of CSV': (text) => csvLine([text]),
  'a text of YAML': yamlText,
  'a text of JSON': (text) => jsonText(text),
  'a line for a terminal': oneLine,
  'text for a terminal': (text) => terminalText(text, { colours: true }),
  'lines of a game': (text) => new LineSplitter(() => {}).push(Buffer.from(text)),
  'a startup line': (text) => startupCommand(gameSpec('srv_a', 1, { startup: text })),
  'a frame of an agent': readFrame,
  'a frame of a plugin': parseFrame,
  'a text of an agent': (text) => agentText(text, 500),
  'the depth of a body': (text) => isDeeperThan(text, 32),
  'the steps of an expression': patternSteps,
  'secrets in a text': maskText,
  'secrets in an object': (text) => maskSecrets({ [text]: text, deep: [text] }, true),
  'an error that is written down': (text) =>
    errorEntry(Object.assign(new Error(text), { stack: `x\n    at ${text}` }), { component: text }),
  'an error of a database host': (text) =>
    hostFailure(Object.assign(new Error(text), { code: text }), { host: 'a', port: 1 } as never, true),
  'an error of a mail server': (text) =>
    mailFailure(Object.assign(new Error(text), { code: text, response: text }), {
      host: 'a',
      port: 1,
      secure: true,
    } as never),
  'an address': canonicalIp,
  'addresses of a list': (text) => expandIps(text, 100, 'others'),
  'ports of a list': (text) => expandPorts(text, 100),
  'an address of a pool': parseIp,
  'a network of a pool': parseNetwork,
  'the address of a caller': countedAddress,
  'a range of versions': (text) => [isRange(text), inRange('1.0.0', text)],
  'a version of the update feed': (text) => [versionIn(text), isNewer('1.0.0', text)],
  'the target of a webhook': (text) => [targetProblem(text, []), formatFor(text), shownUrl(text)],
  'a sender of mails': parseSender,
  'a host name': (text) => HostName.safeParse(text),
  'a duration': parseDuration,
  'an e-mail address': (text) => z.email().safeParse(text),
  'an instant': (text) => z.iso.datetime({ offset: true }).safeParse(text),
  'addresses of zod': (text) => [z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()].map((one) => one.safeParse(text)),
  'a URL': (text) => URL.canParse(text),
  'a schedule': (text) => new Cron(text, { paused: true }),
}

const PUMPS = [
  ...' \t\n\r\u0000\u001b\u009b"\'`\\/:;,.-_@=+*#%&<>[](){}|^$!?~0aAzé中😀\u0301\u202e',
  '\u001b[',
  '\u001b[1;',
  '\u001b]0;',
  '\u001b[1m',
  '{{',
  '{{ ',
  '[{',
  '{"a":',
  '"\\',
  'a.',
  'a@',
  'a-',
  '1.',
  '0:',
  '1-',
  '::',
  '1s',
  '9.9',
  '1,',
  '://',
  'a://b:',
  'token',
  "token='",
  'eyJ-',
  '(a{9}',
  '\\Q',
  '&a ',
  '*a ',
  '- ',
  ' <a',
  'Error: ',
]
const BEFORE = ['', 'http://', '{"type":"', '[', '"', '1', '^']
const LENGTH = 100_000
const LIMIT_MS = 100

/** The least of so many measurements, or the first that is low enough: a busy machine makes them longer, never shorter. */
function bestOf(times: number, measure: () => number, enough: number): number {
  let best = measure()
  for (let more = 1; more < times && best >= enough; more += 1) best = Math.min(best, measure())
  return best
}

describe('a parser', () => {
  it.each(Object.entries(PARSERS))(
    'needs less than 100 ms for 100 kB of anything: %s',
    { tags: ['long'] },
    (_, parse) => {
      const took = (text: string): number =>
        cpuMs(() => {
          try {
            parse(text)
          } catch {
            // A refusal is an answer.
          }
        })
      const slow = PUMPS.flatMap((pump) =>
        BEFORE.flatMap((before) => {
          const short = before + pump.repeat(5000 / pump.length)
          // What grows faster than the text is seen in a twentieth of it; only then, and once for each, the whole is read.
          if (before !== '' && took(short) < 2) return []
          const text = before + pump.repeat(LENGTH / pump.length)
          const ms = bestOf(5, () => took(text), LIMIT_MS)
          return ms < LIMIT_MS ? [] : [`${JSON.stringify(before + pump)}: ${Math.round(ms)} ms`]
        }),
      )
      expect(slow).toEqual([])
    },
  )

  it('of YAML refuses names that stand for each other without an end', () => {
    const levels = Array.from({ length: 20 }, (_, level) => `a${level}: &a${level} [${`*a${level - 1},`.repeat(9)}]`)
    const bomb = ['a-1: &a-1 x', ...levels].join('\n')
    const begun = performance.now()
    expect(() => parseYaml(bomb)).toThrow(/alias/i)
    expect(performance.now() - begun).toBeLessThan(500)
  })
})
