import type { SourceSimulator } from './source-simulator.ts'

interface Asked {
  readonly method?: string
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Asks a source as its clients do; without a key, as the administrator's account. */
export function requestTo(
  source: Pick<SourceSimulator, 'url' | 'keys'>,
  key: string = source.keys.account,
): (path: string, init?: Asked) => Promise<Response> {
  return async (path, init = {}) =>
    await fetch(path.startsWith('http') ? path : `${source.url}${path}`, {
      redirect: 'manual',
      ...init,
      headers: {
        authorization: `Bearer ${key}`,
        accept: 'application/json',
        'content-type': 'application/json',
        ...init.headers,
      },
    })
}

/** What an item has. */
export async function attributesOf<T = Record<string, unknown>>(response: Response): Promise<T> {
  const { attributes } = (await response.json()) as { attributes: T }
  return attributes
}

/** What the rows of a list have. */
export async function rowsOf<T = Record<string, unknown>>(response: Response): Promise<T[]> {
  const { data } = (await response.json()) as { data: { attributes: T }[] }
  return data.map(({ attributes }) => attributes)
}

/** Status and code of a refusal. */
export async function refusalOf(response: Response): Promise<[status: number, code: string]> {
  const { errors } = (await response.json()) as { errors: { code: string; status: string }[] }
  return [response.status, errors[0]?.code ?? '']
}
