import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '../module-graph.ts'

/** A recipe of ARCHITECTURE.md as a patch of this folder. */
export interface Recipe {
  /** `<patch>.patch` */
  readonly patch: string
  /** The heading of its section. */
  readonly heading: string
  /** Test files that fail until the recipe is complete; the types are checked before them. */
  readonly checks: readonly string[]
  /** Files that only slower tests miss; they are not left out by turns. */
  readonly slow?: readonly string[]
}

/** Each recipe of the page. */
export const RECIPES: readonly Recipe[] = [
  {
    patch: 'endpoint',
    heading: 'Adding an endpoint with its command',
    checks: [
      'test/contract/registry.test.ts',
      'test/cli/tree.test.ts',
      'test/cli/man.test.ts',
      'test/daemon/locations.test.ts',
    ],
    slow: ['test/cli/every-command.test.ts', 'test/daemon/locations.test.ts'],
  },
  {
    patch: 'setting',
    heading: 'Adding a setting',
    checks: ['test/docs-settings.test.ts', 'test/cli/man.test.ts', 'test/daemon/settings/effects.test.ts'],
    slow: ['test/daemon/settings/effects.test.ts'],
  },
  {
    patch: 'event',
    heading: 'Adding an event',
    checks: ['test/daemon/location-renamed.test.ts'],
    slow: ['test/daemon/location-renamed.test.ts'],
  },
  {
    patch: 'job',
    heading: 'Adding a job',
    checks: ['test/daemon/jobs/location-check.test.ts'],
    slow: ['test/daemon/jobs/location-check.test.ts'],
  },
  {
    patch: 'migration',
    heading: 'Adding a migration',
    checks: ['test/daemon/core/location-country.test.ts'],
    slow: ['test/daemon/core/location-country.test.ts'],
  },
  {
    patch: 'command',
    heading: 'Adding a command to agents',
    checks: ['test/daemon/node-addresses.test.ts'],
    slow: ['test/daemon/node-addresses.test.ts'],
  },
  {
    patch: 'slice',
    heading: 'Adding a slice',
    checks: [
      'test/architecture.test.ts',
      'test/docs-database.test.ts',
      'test/cli/tree.test.ts',
      'test/cli/man.test.ts',
      'test/contract/registry.test.ts',
      'test/daemon/announcements.test.ts',
    ],
    slow: [
      'test/cli/every-command.test.ts',
      'test/contract/errors.test.ts',
      'test/contract/inputs.ts',
      'test/contract/world.ts',
      'test/daemon/announcements.test.ts',
    ],
  },
]

const TIMEOUT_MS = 240_000

/** The files that a recipe's patch touches, sorted. */
export function filesOfPatch({ patch }: Recipe): string[] {
  const text = readFileSync(join(ROOT, 'test/recipes', `${patch}.patch`), 'utf8')
  return [...text.matchAll(/^diff --git a\/(\S+) b\//gm)].map(([, file = '']) => file).sort()
}

/** The files that the page names for a recipe, sorted: those between backticks in the paragraph that begins with `Files:`. */
export function filesOfPage({ heading }: Recipe): string[] {
  const page = readFileSync(join(ROOT, 'ARCHITECTURE.md'), 'utf8')
  const section = page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? ''
  const named = section.split('\n\n').find((paragraph) => paragraph.startsWith('Files: ')) ?? ''
  return [...named.matchAll(/`([^`\n]+)`/g)].map(([, file = '']) => file).sort()
}

/** A clone of the last commit to apply recipes to. */
export class Clone {
  readonly #folder = mkdtempSync(join(tmpdir(), 'panel-recipe-'))

  constructor() {
    execFileSync('git', ['clone', '--quiet', ROOT, this.#folder])
    symlinkSync(join(ROOT, 'node_modules'), join(this.#folder, 'node_modules'))
  }

  /** Applies a recipe to the tree as it was committed, without one of its files where that is named. */
  apply({ patch }: Recipe, without?: string): void {
    this.#git('reset', '--quiet', '--hard')
    this.#git('clean', '--quiet', '-d', '--force', '--exclude=node_modules')
    const left = without === undefined ? [] : [`--exclude=${without}`]
    this.#git('apply', ...left, join(ROOT, 'test/recipes', `${patch}.patch`))
  }

  /** Why the recipe is not complete: what the compiler or its tests say; `undefined` when all of them pass. */
  failure({ checks }: Recipe): string | undefined {
    const { PANEL_TEST_DIST: _, ...env } = process.env // it has a build of its own
    const bin = (name: string): string => join(ROOT, 'node_modules/.bin', name)
    const commands = [
      [bin('tsc'), '--noEmit', '--incremental', '--tsBuildInfoFile', '.git/types.tsbuildinfo', '-p', 'tsconfig.json'],
      [bin('vitest'), 'run', '--bail=1', '--reporter=dot', ...checks],
    ]
    for (const [command = '', ...args] of commands) {
      const run = spawnSync(command, args, { cwd: this.#folder, env, encoding: 'utf8', timeout: TIMEOUT_MS })
      if (run.error !== undefined) throw run.error
      if (run.status !== 0) return `${run.stdout}${run.stderr}`
    }
    return undefined
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #git(...args: readonly string[]): void {
    execFileSync('git', [...args], { cwd: this.#folder })
  }
}
