import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import type { Mutant } from './mutant.ts'

/** What came of one planted mistake. `invalid`: it does not fit the source, does not compile, or took too long. */
export type Outcome =
  | { readonly kind: 'seen'; readonly test: string }
  | { readonly kind: 'unseen' }
  | { readonly kind: 'invalid'; readonly why: string }

/** What vitest's JSON reporter says, as far as it is read here. */
interface Report {
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly message?: string
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[]
  }[]
}

const TIME_LIMIT_MS = 480_000

/** A copy of the source in which mistakes are planted one after the other. */
export class SourceCopy {
  readonly #root: string

  /** Copies what git knows or would add. */
  static async of(root: string): Promise<SourceCopy> {
    const copy = await mkdtemp(join(tmpdir(), 'panel-mutants-'))
    await chmod(copy, 0o755) // tests run programs under other users
    const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root })
    for (const name of listed.toString().split('\0').filter(Boolean)) {
      await mkdir(dirname(join(copy, name)), { recursive: true })
      await cp(join(root, name), join(copy, name)).catch(ignoreDeleted)
    }
    await symlink(join(root, 'node_modules'), join(copy, 'node_modules'))
    return new SourceCopy(copy)
  }

  private constructor(root: string) {
    this.#root = root
  }

  /** Which of these test files fail as the source is. */
  async failingWithout(files: readonly string[]): Promise<string[]> {
    if (files.length === 0) return []
    const report = await this.#run(files, [])
    if (report === undefined) return [...files]
    return report.testResults.filter(({ status }) => status !== 'passed').map(({ name }) => relative(this.#root, name))
  }

  /** Plants a mistake, runs the tests that have to see it, and takes it out again. */
  async plant(mutant: Mutant): Promise<Outcome> {
    const path = join(this.#root, mutant.file)
    const source = await readFile(path, 'utf8').catch(() => undefined) // said below
    if (source === undefined) return { kind: 'invalid', why: `there is no ${mutant.file}` }
    const places = source.split(mutant.find).length - 1
    if (places !== 1) return { kind: 'invalid', why: `the text stands ${places} times in ${mutant.file}` }
    await writeFile(
      path,
      source.replace(mutant.find, () => mutant.replace),
    )
    try {
      const first = await this.#outcome(mutant.seenBy, ['--bail', '1'])
      // A run that ends at its first failure sometimes ends before it has written that failure down.
      return first.kind === 'unseen' ? await this.#outcome(mutant.seenBy, []) : first
    } finally {
      await writeFile(path, source)
    }
  }

  async remove(): Promise<void> {
    await rm(this.#root, { recursive: true, force: true })
  }

  async #outcome(files: readonly string[], options: readonly string[]): Promise<Outcome> {
    const report = await this.#run(files, options)
    if (report === undefined) return { kind: 'invalid', why: 'it does not compile, or the tests took too long' }
    return outcomeOf(report)
  }

  async #run(files: readonly string[], options: readonly string[]): Promise<Report | undefined> {
    const output = join(this.#root, 'mutant-report.json')
    await rm(output, { force: true })
    const vitest = join(this.#root, 'node_modules', 'vitest', 'vitest.mjs')
    const args = [vitest, 'run', ...files, ...options, '--reporter=json', `--outputFile=${output}`]
    const child = spawn(process.execPath, args, { cwd: this.#root, stdio: 'ignore' })
    const timer = setTimeout(() => child.kill('SIGTERM'), TIME_LIMIT_MS)
    await once(child, 'close')
    clearTimeout(timer)
    const text = await readFile(output, 'utf8').catch(() => undefined) // no report: no test was run
    return text === undefined ? undefined : (JSON.parse(text) as Report) // written by vitest itself
  }
}

function outcomeOf(report: Report): Outcome {
  const failed = report.testResults.flatMap(({ assertionResults }) => assertionResults).find(isFailed)
  if (failed !== undefined) return { kind: 'seen', test: failed.fullName.trim() }
  // A file that fails as a whole: in its hooks, or while it is loaded.
  const file = report.testResults.find(({ status }) => status === 'failed')
  return file === undefined ? { kind: 'unseen' } : { kind: 'seen', test: `${file.message ?? file.name}`.slice(0, 200) }
}

function isFailed({ status }: { readonly status: string }): boolean {
  return status === 'failed'
}

function ignoreDeleted(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error // git still lists a file that was deleted and not committed
}
