import { expect, it } from 'vitest'
import { z } from 'zod'
import { parsePart } from '../../../src/daemon/http/errors.ts'
import { PanelError } from '../../../src/shared/kernel/errors.ts'

it('says of a missing field that it is required, and of a wrong one what it must be', () => {
  const schema = z.object({ name: z.string(), port: z.number(), tags: z.array(z.object({ key: z.string() })) })
  const parse = (): unknown => parsePart('body', schema, { port: 'x', tags: [{}] })
  expect(parse).toThrow(PanelError)
  expect(parse).toThrow(
    expect.objectContaining({
      message: 'The request is not valid: body.name is required',
      details: [
        { field: 'body.name', message: 'is required' },
        { field: 'body.port', message: 'must be a number' },
        { field: 'body.tags.0.key', message: 'is required' },
      ],
    }),
  )
})

it.each([
  [z.coerce.number().int().min(1), 'x', 'must be a number'],
  [z.int(), 1.5, 'must be a whole number'],
  [z.int().min(16), 1, 'must be at least 16'],
  [z.number().gt(0).max(128), 0, 'must be more than 0'],
  [z.int().max(65_535), 70_000, 'must be at most 65535'],
  [z.int().min(16).max(65_535), 1e308, 'must be at most 65535'],
  [z.string().min(1), '', 'must have at least 1 character'],
  [z.string().max(3), 'four', 'must have at most 3 characters'],
  [z.string().length(2), 'x', 'must have exactly 2 characters'],
  [z.array(z.int()).max(1), [1, 2], 'must have at most 1 entry'],
  [z.record(z.string(), z.string()), [], 'must be an object'],
  [z.boolean(), 'yes', 'must be true or false'],
  [z.enum(['start', 'stop']), 'go', 'must be one of start, stop'],
  [z.email(), 'nobody', 'must be an e-mail address'],
  [z.string().regex(/^a/, 'must begin with a'), 'b', 'must begin with a'],
])('says what a value must be (%#)', (schema, value, message) => {
  const parse = (): unknown => parsePart('query', z.object({ field: schema }), { field: value })
  expect(parse).toThrow(expect.objectContaining({ details: [{ field: 'query.field', message }] }))
})
