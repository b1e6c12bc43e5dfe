import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'yaml'
import { createTemplate, NewTemplate } from '../../../../shared/api/templates.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { folderAbove } from '../../../../shared/platform/program-folder.ts'
import { PANEL, perform, recordChange } from '../../../access/operation.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Tx } from '../../../db/db.ts'
import { auditView, ensureUsable } from './definition.ts'
import type { TemplateDeps } from './deps.ts'
import { createNest } from './nest-operations.ts'
import { findNestIdByName } from './nest-rows.ts'
import { insertTemplateIfNew } from './rows.ts'

const NEST = { name: 'Starter', description: 'Templates that come with the panel', icon: null, author: 'panel' }
const FILE_LINE = /^#@file ([a-z0-9-]+\.[a-z]+)$/
const END = 'END_OF_STARTER_FILE'

/** The folder of starter templates that is shipped with the program. */
export function starterFolder(): string {
  const folder = folderAbove(import.meta.dirname, 'package.json')
  if (folder === undefined) throw new Error(`no folder above ${import.meta.dirname} is the program's`)
  return join(folder, 'templates')
}

/**
 * The starter templates of a folder. Each line `#@file NAME` of an install script becomes a here-document with the
 * content of `<template>/NAME`, so that a game reaches any node inside the script.
 */
export async function loadStarters(folder: string): Promise<NewTemplate[]> {
  const files = (await readdir(folder)).filter((name) => name.endsWith('.yaml')).toSorted()
  return Promise.all(files.map((name) => loadStarter(folder, name.slice(0, -'.yaml'.length))))
}

/**
 * Adds the nest "Starter" and the templates that this installation was never given, by name. Present ones stay as people edited
 * them, and those that were deleted stay away.
 */
export async function ensureStarters(
  tx: Tx,
  deps: TemplateDeps & { readonly settings: Settings },
  starters: readonly NewTemplate[],
): Promise<void> {
  const { clock, settings } = deps
  const given = await settings.read(tx, 'install.starters')
  const missing = starters.filter(({ name }) => !given.includes(name))
  if (missing.length === 0) return
  await settings.set(tx, 'install.starters', [...given, ...missing.map(({ name }) => name)])
  const nestId = (await findNestIdByName(tx.q, NEST.name)) ?? (await makeNest(tx, deps))
  for (const starter of missing) {
    const id = newId('tpl', clock)
    // The id is that of the row above.
    const template = { ...starter, nestId: nestId as NewTemplate['nestId'] }
    if (!(await insertTemplateIfNew(tx.q, template, { id, createdAt: tx.now, updatedAt: tx.now }))) continue
    const data = { templateId: id, templateName: template.name, createdBy: null }
    await recordChange(
      tx,
      { deps, principal: PANEL, endpoint: createTemplate },
      { audit: { resourceId: id, details: auditView(template) }, events: [{ type: 'template_created', data }] },
    )
  }
}

async function makeNest(tx: Tx, deps: TemplateDeps): Promise<string> {
  const input = { params: {}, query: undefined, body: NEST }
  return (await perform(tx, createNest, { deps, principal: PANEL, input })).id
}

async function loadStarter(folder: string, name: string): Promise<NewTemplate> {
  const raw: unknown = parse(await readFile(join(folder, `${name}.yaml`), 'utf8'))
  const template = NewTemplate.parse(raw)
  const script = template.installScript
  const installScript = script === null ? null : await withFiles(script, join(folder, name))
  const whole = NewTemplate.parse({ ...template, installScript })
  ensureUsable(whole)
  return whole
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
