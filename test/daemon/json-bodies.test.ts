import { afterEach, beforeEach, expect, it } from 'vitest'
import { type PlacePanel, startPlacePanel } from './place-panel.ts'

let panel: PlacePanel
beforeEach(async () => {
  panel = await startPlacePanel()
})
afterEach(() => panel.close())

async function send(body: Uint8Array, contentType: string) {
  const response = await fetch(`${panel.url}/api/locations`, {
    method: 'POST',
    headers: { authorization: `Bearer ${panel.token}`, 'content-type': contentType },
    body,
  })
  const answer: { code?: string; error?: string; data?: { name: string } } = JSON.parse(await response.text())
  return { status: response.status, said: answer.error ?? answer.data?.name }
}

const named = (name: string): string => JSON.stringify({ name })

it.each([
  ['iso-8859-1', Buffer.from(named('Köln'), 'latin1')],
  ['ISO-8859-1', Buffer.from(named('Ulm'))],
  ['utf-16', Buffer.from(named('Köln'), 'utf16le')],
  ['"utf-16"', Buffer.from(named('Köln'), 'utf16le')],
])('a body in %s is refused with the encoding that it says', async (charset, body) => {
  const said = `The request is not valid: body must be UTF-8, not ${charset.toLowerCase().replaceAll('"', '')}`
  for (const contentType of [`application/json; charset=${charset}`, `application/json;x=y; Charset = ${charset}`]) {
    expect(await send(body, contentType)).toEqual({ status: 400, said })
  }
})

it('bytes that are no UTF-8 are refused instead of kept as other characters', async () => {
  const refused = { status: 400, said: 'The request is not valid: body must be UTF-8' }
  expect(await send(Buffer.from(named('Köln'), 'latin1'), 'application/json')).toEqual(refused)
  // Half a pair, as some programs write it.
  const half = Buffer.concat([Buffer.from('{"name":"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')])
  expect(await send(half, 'application/json; charset=utf-8')).toEqual(refused)
})

it.each([
  'application/json',
  'application/json; charset=utf-8',
  'application/json;charset="UTF-8"',
  'application/json; charset=utf8',
])('a body of %s is taken as it is', async (contentType) => {
  expect(await send(Buffer.from(named('Köln � 東')), contentType)).toEqual({ status: 201, said: 'Köln � 東' })
})
