import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { listFiles } from '../../../src/shared/api/files.ts'
import { urlOf } from '../../../src/shared/client.ts'
import { matchesGlob, parseGlob } from '../../../src/shared/kernel/glob.ts'
import { pathBytes, pathText, percentDecoded, percentEncoded } from '../../../src/shared/kernel/path-text.ts'
import { oneLine } from '../../../src/shared/kernel/terminal-text.ts'

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 12 }),
  // What is nearly UTF-8: beginnings of sequences, surrogates, overlong forms.
  fc
    .array(fc.constantFrom(0xc3, 0xa9, 0xed, 0xa0, 0x80, 0xf0, 0x9f, 0x98, 0xc0, 0xaf, 0x41, 0xff), { maxLength: 9 })
    .map((list) => Uint8Array.from(list)),
)

describe('a name as text', () => {
  it('says each sequence of bytes, and comes back as the same', () => {
    fc.assert(
      fc.property(bytes, (name) => {
        const text = pathText(name)
        expect(pathBytes(text)).toEqual(name)
        expect(JSON.parse(JSON.stringify(text))).toBe(text)
        expect(percentDecoded(percentEncoded(text))).toBe(text)
        if (!name.includes(0x2f) && !name.includes(0)) expect(/[/\0]/.test(text)).toBe(false)
      }),
      { numRuns: 500 },
    )
  })

  it('is the only one of its bytes', () => {
    fc.assert(
      fc.property(
        fc
          .array(fc.constantFrom('a', 'é', '€', '😀', '\udc80', '\udcff', '\ud83d', '\udc00'), { maxLength: 8 })
          .map((list) => list.join('')),
        fc.constantFrom('', '\udcc3', '\udca9', '\ud800', '\udc2f'),
        (text, more) => {
          const given = `${text}${more}`
          const made = pathBytes(given)
          if (made !== undefined) expect(pathText(made)).toBe(given)
        },
      ),
    )
    expect([pathBytes('\udcc3\udca9'), pathBytes('\udc2f'), pathBytes('\ud83d')]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
    expect(pathBytes('\ud83d\ude00')).toHaveLength(4)
  })

  it('goes through a URL as its bytes, and is shown by a terminal as an escape', () => {
    const url = urlOf(listFiles, { params: { serverId: 'srv_a' }, query: { path: '/a\udcff é', limit: 5 } }, 'http://h')
    expect(url).toBe('http://h/api/servers/srv_a/files?limit=5&path=%2Fa%FF%20%C3%A9')
    expect([percentDecoded('/a%FF'), percentDecoded('%zz'), percentDecoded('a%2')]).toEqual(['/a\udcff', '%zz', 'a%2'])
    expect(oneLine('a\udcff\ud83d\ude00')).toBe('a\\xff\ud83d\ude00')
  })
})

describe('a pattern of names', () => {
  it.each([
    ['*.log', 'a.log', true],
    ['*.log', 'a.log.gz', false],
    ['r.?.?.mca', 'r.0.1.mca', true],
    ['[a-c]*[!0-9]', 'bx', true],
    ['[a-c]*[!0-9]', 'b1', false],
    ['[]x]', ']', true],
    ['[x', '[x', true],
    ['\\*', '*', true],
    ['\\*', 'a', false],
    ['?', '\udcff', true],
    ['?', '\ud83d\ude00', true],
    ['', '', true],
    ['**a**', 'bab', true],
  ])('%s and %j: %s', (pattern, name, fits) => {
    expect(matchesGlob(parseGlob(pattern), name)).toBe(fits)
  })

  it('takes no long time, whatever both say', () => {
    const began = performance.now()
    expect(matchesGlob(parseGlob('*a'.repeat(120)), 'a'.repeat(250).concat('b'))).toBe(false)
    expect(performance.now() - began).toBeLessThan(500)
  })
})
