import { execFileSync, spawnSync } from 'node:child_process'
import { randomFillSync } from 'node:crypto'
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createBackup, deleteBackup, restoreBackup } from '../../src/shared/protocol/backups.ts'
import { BackupStage, creation, type NamedBackup, restoring } from '../agent/backups/backup-stage.ts'
import { type Figures, type Measurement, median, shown, spread, under } from './figure.ts'

const MIB = 1024 * 1024
/** As a world has it: some large files of which half can be made smaller, and many small ones. */
const LARGE = 48
const LARGE_MIB = 8
const SMALL = 3000
const ROUNDS = 3
const MOST_MS = 300_000

/** A backup of a server's folder against `tar | gzip` of the same tree, and increments beside those of restic where that is installed. */
export const backups: Measurement = async (progress) => {
  const stage = await BackupStage.enter()
  const beside = mkdtempSync(join(tmpdir(), 'panel-bench-backups-'))
  try {
    fill(stage.folder)
    const tarred = join(beside, 'plain.tar.gz')
    const times = { tar: [] as number[], gzip: [] as number[], zstd: [] as number[] }
    const hasZstd = spawnSync('zstd', ['--version']).status === 0
    for (let round = 0; round < ROUNDS; round++) {
      times.tar.push(
        await seconds(
          async () => void execFileSync('sh', ['-c', `tar -c . | gzip > ${tarred}`], { cwd: stage.folder }),
        ),
      )
      for (const compression of hasZstd ? (['gzip', 'zstd'] as const) : (['gzip'] as const)) {
        const name = stage.name('archive')
        times[compression].push(await seconds(() => create(stage, name, compression)))
        await stage.ask(deleteBackup, { ...name }, MOST_MS)
      }
      progress(
        Object.entries(times)
          .map(([name, all]) => `${name} ${all.at(-1)?.toFixed(1)} s`)
          .join(', '),
      )
    }
    const tar = median(times.tar)
    return {
      'gzip.ofTarGzip': under(median(times.gzip) / tar, 1.2, 'of the time of tar | gzip'),
      ...(hasZstd ? { 'zstd.ofTarGzip': under(median(times.zstd) / tar, 0.6, 'of the time of tar | gzip') } : {}),
      'tarGzip.seconds': shown(tar, 's'),
      'gzip.seconds': spread(times.gzip),
      ...(await increments(stage)),
      ...(await resticOf(stage.folder, beside)),
    }
  } finally {
    rmSync(beside, { recursive: true, force: true })
    await stage.leave()
  }
}

async function create(stage: BackupStage, name: NamedBackup, compression = 'gzip'): Promise<number> {
  const input = { serverId: stage.serverId, ...name, ...creation({ compression }) }
  return (await stage.ask(createBackup, input, MOST_MS)).storedBytes
}

async function increments(stage: BackupStage): Promise<Figures> {
  const [first, second] = [stage.name('incremental'), stage.name('incremental')]
  let [all, more] = [0, 0]
  const firstSeconds = await seconds(async () => {
    all = await create(stage, first)
  })
  change(stage.folder)
  const secondSeconds = await seconds(async () => {
    more = await create(stage, second)
  })
  const restoreSeconds = await seconds(() =>
    stage.ask(restoreBackup, { serverId: stage.serverId, ...second, ...restoring() }, MOST_MS),
  )
  return {
    'incremental.first': shown(firstSeconds, 's'),
    'incremental.firstStored': shown(all / MIB, 'MiB'),
    'incremental.second': shown(secondSeconds, 's with 4 MiB changed'),
    'incremental.secondStored': shown(more / MIB, 'MiB'),
    'incremental.restore': shown(restoreSeconds, 's'),
  }
}

async function resticOf(folder: string, beside: string): Promise<Figures> {
  const env = { PATH: process.env['PATH'], RESTIC_PASSWORD: 'bench', RESTIC_REPOSITORY: join(beside, 'restic') }
  const restic = (...args: string[]): string =>
    execFileSync('restic', ['--no-cache', '--quiet', ...args], { env, encoding: 'utf8' })
  if (spawnSync('restic', ['version']).status !== 0) return {}
  const size = (): number =>
    Number(execFileSync('du', ['-sm', join(beside, 'restic')], { encoding: 'utf8' }).split('\t')[0])
  restic('init', '--repository-version', '2')
  const first = await seconds(async () => restic('backup', folder))
  const firstStored = size()
  change(folder)
  const second = await seconds(async () => restic('backup', folder))
  const secondStored = size() - firstStored
  const restore = await seconds(async () => restic('restore', 'latest', '--target', join(beside, 'restored')))
  return {
    'restic.first': shown(first, 's'),
    'restic.firstStored': shown(firstStored, 'MiB'),
    'restic.second': shown(second, 's with 4 MiB changed'),
    'restic.secondStored': shown(secondStored, 'MiB'),
    'restic.restore': shown(restore, 's'),
  }
}

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return (performance.now() - began) / 1000
}

function fill(folder: string): void {
  mkdirSync(join(folder, 'region'), { recursive: true })
  const block = Buffer.alloc(LARGE_MIB * MIB, 'words that come again, as names of blocks do; ')
  for (let file = 0; file < LARGE; file++) {
    for (let at = 0; at < block.length; at += 2 * 4096) randomFillSync(block, at, 4096)
    writeFileSync(join(folder, 'region', `r.${file}.mca`), block)
  }
  for (let file = 0; file < SMALL; file++) {
    if (file % 100 === 0) mkdirSync(join(folder, `data.${file / 100}`))
    writeFileSync(join(folder, `data.${Math.floor(file / 100)}`, `${file}.json`), `{"player": ${file}}\n`.repeat(200))
  }
}

/** Four places of 1 MiB each. */
function change(folder: string): void {
  for (let file = 0; file < 4; file++) {
    const handle = openSync(join(folder, 'region', `r.${file * 10}.mca`), 'r+')
    writeSync(handle, randomFillSync(Buffer.alloc(MIB)), 0, MIB, 3 * MIB + 123)
    closeSync(handle)
  }
}
