import { expect, it } from 'vitest'
import { z } from 'zod'
import { parsePart } from '../../../src/daemon/core/http-errors.ts'
import { PanelError } from '../../../src/shared/errors.ts'

it('says of a missing field that it is required, and of a wrong one what it must be', () => {
  const schema = z.object({ name: z.string(), port: z.number(), tags: z.array(z.object({ key: z.string() })) })
  const parse = (): unknown => parsePart('body', schema, { port: 'x', tags: [{}] })
  expect(parse).toThrow(PanelError)
  expect(parse).toThrow(
    expect.objectContaining({
      message: 'The request is not valid: body.name is required',
      details: [
        { field: 'body.name', message: 'is required' },
        { field: 'body.port', message: 'Invalid input: expected number, received string' },
        { field: 'body.tags.0.key', message: 'is required' },
      ],
    }),
  )
})
