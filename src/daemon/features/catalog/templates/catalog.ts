import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { parse } from 'yaml'
import { z } from 'zod'
import { NewTemplate } from '../../../../shared/api/template-fields.ts'
import { programFolder } from '../../../../shared/platform/program-folder.ts'
import { ensureUsable } from './definition.ts'

const FILE_LINE = /^#@file ([a-z0-9-]+\.[a-z]+)$/
const END = 'END_OF_STARTER_FILE'

/** A template that comes with the program. */
export interface ShippedTemplate {
  /** What it is called in the catalogue: the name of its file. */
  readonly slug: string
  readonly template: NewTemplate
  /** Packages of Debian that its servers need on their node, and what else. */
  readonly debianPackages: readonly string[]
  readonly requires: string | null
}

/** The folder of the templates that every installation is given; those of the catalogue beyond them are in `catalog` below it. */
export function starterFolder(): string {
  const folder = programFolder(import.meta.dirname)
  if (folder === undefined) throw new Error(`no folder above ${import.meta.dirname} is the program's`)
  return join(folder, 'templates')
}

/** All templates that come with the program, read when they are asked for first. */
export class Catalog {
  readonly #folders: readonly string[]
  #loaded: Promise<ReadonlyMap<string, ShippedTemplate>> | undefined

  constructor(starters = starterFolder()) {
    this.#folders = [starters, join(starters, 'catalog')]
  }

  /** By their names in the catalogue, in that order. */
  all(): Promise<ReadonlyMap<string, ShippedTemplate>> {
    this.#loaded ??= this.#load().catch((error: unknown) => {
      // The next one may find the files again, as after an upgrade of the program.
      this.#loaded = undefined
      throw error
    })
    return this.#loaded
  }

  async #load(): Promise<ReadonlyMap<string, ShippedTemplate>> {
    const shipped = (await Promise.all(this.#folders.map(loadShipped))).flat()
    return new Map(shipped.toSorted((a, b) => (a.slug < b.slug ? -1 : 1)).map((one) => [one.slug, one]))
  }
}

/**
 * The templates of a folder. Each line `#@file NAME` of an install script becomes a here-document with the content of
 * `<template>/NAME`, so that a game reaches any node inside the script.
 */
export async function loadShipped(folder: string): Promise<ShippedTemplate[]> {
  const shipped: ShippedTemplate[] = []
  for (const { slug, text } of await textsOf(folder)) {
    // Each takes milliseconds: whoever asks the daemon something meanwhile waits for one of them, not for all.
    await setImmediate()
    shipped.push(await parsed(folder, slug, text))
  }
  return shipped
}

/** The files of a folder's templates, in the order of their names. */
export async function textsOf(folder: string): Promise<{ readonly slug: string; readonly text: string }[]> {
  const files = (await readdir(folder)).filter((name) => name.endsWith('.yaml')).toSorted()
  return await Promise.all(
    files.map(async (name) => ({
      slug: name.slice(0, -'.yaml'.length),
      text: await readFile(join(folder, name), 'utf8'),
    })),
  )
}

/** What says whether a stored definition was changed since it was written. */
export function fingerprint(definition: string): string {
  return createHash('sha256').update(definition).digest('hex')
}

/** Whether one version of a template, as `1.2.0`, is later than another; texts that are none are never. */
export function isLater(version: string, than: string): boolean {
  const [a, b] = [partsOf(version), partsOf(than)]
  if (a === undefined || b === undefined) return false
  const at = a.findIndex((part, index) => part !== b[index])
  return at >= 0 && (a[at] ?? 0) > (b[at] ?? 0)
}

function partsOf(version: string): number[] | undefined {
  const parts = version.split('.').map(Number)
  return parts.length === 3 && parts.every((part) => Number.isSafeInteger(part) && part >= 0) ? parts : undefined
}

const Features = z.looseObject({
  debianPackages: z.array(z.string()).default([]),
  requires: z.string().nullable().default(null),
})

async function parsed(folder: string, slug: string, text: string): Promise<ShippedTemplate> {
  const raw: unknown = parse(text)
  const read = NewTemplate.parse(raw)
  const script = read.installScript
  const installScript = script === null ? null : await withFiles(script, join(folder, slug))
  const template = NewTemplate.parse({ ...read, installScript })
  ensureUsable(template)
  const { debianPackages, requires } = Features.parse(template.features)
  return { slug, template, debianPackages, requires }
}

async function withFiles(script: string, folder: string): Promise<string> {
  const lines = await Promise.all(
    script.split('\n').map(async (line) => {
      const name = FILE_LINE.exec(line)?.[1]
      if (name === undefined) return line
      const content = await readFile(join(folder, name), 'utf8')
      if (content.includes(END) || !content.endsWith('\n')) {
        throw new Error(`${join(folder, name)} must end with a line feed and not contain ${END}`)
      }
      return `cat > ${name} <<'${END}'\n${content}${END}`
    }),
  )
  return lines.join('\n')
}
