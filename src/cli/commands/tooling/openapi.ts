import type { Action } from '../../kit/command.ts'
import { CliFailure } from '../../kit/failure.ts'
import type { Run } from '../../kit/run.ts'

/** `panel openapi`. */
export const openapi: Action = async (run) => {
  const document = await readOpenApi(run)
  const file = run.args.text('out')
  if (file === undefined) return run.out.value(document)
  const { writeFile } = await import('node:fs/promises')
  await writeFile(file, `${JSON.stringify(document, null, 2)}\n`)
  run.notice(`written to ${file}`)
}

/** The document that the panel answers; public. */
export async function readOpenApi(run: Run): Promise<Record<string, unknown>> {
  const { url } = await run.target()
  const { fetch } = await run.connection()
  const answer = await fetch(new URL('api/openapi.json', url.endsWith('/') ? url : `${url}/`).href, {
    method: 'GET',
    headers: { accept: 'application/json' },
  })
  const document: unknown = answer.status === 200 ? JSON.parse(await answer.text()) : undefined
  if (typeof document === 'object' && document !== null) return { ...document }
  throw new CliFailure('UNREACHABLE', `${url} answered ${answer.status} for /api/openapi.json; is the URL right?`)
}
