import { z } from 'zod'
import { DirectorySource, MigrationPlan } from '../../../shared/api/migration.ts'
import { jsonText } from '../../../shared/kernel/terminal-text.ts'
import { CliFailure } from '../../kit/failure.ts'
import { parseObject, readInput } from '../../kit/read-file.ts'
import type { Run } from '../../kit/run.ts'
import { MigrationRequest } from './request.ts'

/** A plan with what it was asked with: enough to carry it out, without any key. */
export const PlanFile = z.object({
  planFile: z.literal(1),
  source: z.union([z.object({ source: DirectorySource }), z.object({ url: z.string(), insecure: z.boolean() })]),
  request: MigrationRequest,
  plan: MigrationPlan,
})
export type PlanFile = z.infer<typeof PlanFile>

/** Reads a plan file, `-` is stdin; exit 2 when it is none. */
export async function readPlanFile(run: Run, path: string): Promise<PlanFile> {
  const value = await parseObject(path, await readInput(path, run.terminal.stdin))
  const parsed = PlanFile.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const where = issue === undefined || issue.path.length === 0 ? '' : ` (${issue.path.join('.')}: ${issue.message})`
  throw new CliFailure('FILE_UNREADABLE', `${path} is no plan of a migration${where}`, {
    hint: 'panel migration plan --out plan.json',
  })
}

/** Writes a plan file, whole or not at all; it names people, so only its owner may read it. */
export async function writePlanFile(run: Run, path: string, file: PlanFile): Promise<void> {
  const text = `${jsonText(file, 2)}\n`
  if (path === '-') return run.out.text(text)
  const { writePrivateFile } = await import('../../kit/profile/files.ts')
  await writePrivateFile(path, text)
}
