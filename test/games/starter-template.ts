import { readFile } from 'node:fs/promises'
import { parse } from 'yaml'
import { NewTemplate } from '../../src/shared/api/template-fields.ts'

const TEMPLATES = new URL('../../templates/', import.meta.url)
const END = 'END_OF_PANEL_FILE'

/** A template file as the API takes it. */
export async function readTemplate(url: URL): Promise<NewTemplate> {
  return NewTemplate.parse(parse(await readFile(url, 'utf8')))
}

/**
 * A starter template with its game's files inside the install script: each line `#@file NAME` becomes a here-document
 * with the content of `templates/<starter>/NAME`.
 */
export async function readStarter(starter: string): Promise<NewTemplate> {
  const template = await readTemplate(new URL(`${starter}.yaml`, TEMPLATES))
  const lines = await Promise.all(
    (template.installScript ?? '').split('\n').map(async (line) => {
      const name = /^#@file ([a-z0-9-]+\.[a-z]+)$/.exec(line)?.[1]
      if (name === undefined) return line
      const content = await readFile(new URL(`${starter}/${name}`, TEMPLATES), 'utf8')
      if (content.includes(END) || !content.endsWith('\n')) throw new Error(`${name} does not fit a here-document`)
      return `cat > ${name} <<'${END}'\n${content}${END}`
    }),
  )
  return { ...template, installScript: lines.join('\n') }
}
