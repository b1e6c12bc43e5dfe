import { closeSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import type { Clock } from '../../../shared/kernel/time.ts'
import { joinCgroup, makeCgroup, removeCgroup } from '../cgroup.ts'
import { BeginFailure, type ChildEnd } from '../child.ts'
import type { HolderPaths, HolderRecord, LaunchFile } from '../holder-files.ts'
import { removeFile, replaceJson } from '../own-files.ts'
import { bootId, processFacts } from '../proc.ts'
import { killRun, scopeOf } from '../run-processes.ts'
import { childEnded, Wake } from './child-end.ts'
import { isProgram } from './interrupted-start.ts'
import { CHAIN_FAILED, Handshake, type Launched, launch, sendGo } from './launcher.ts'
import type { Terminal } from './terminal.ts'
import { openUserNamespace } from './user-namespace.ts'

/** Games are to be ended before the panel and the system when the machine runs out of memory. */
const OOM_SCORE = 200
const MAX_OPEN_FILES = 65_536
const PREPARE_MS = 15_000

/** A child that has become its program, or has already ended as one. */
export interface Begun {
  readonly record: HolderRecord
  readonly wake: Wake
}

/**
 * Starts the child of a launch file. The record is on disk before the child gets the word to go on, and the launch file goes
 * when the child is the program: at whatever moment this process dies, a successor knows what runs, and can begin what does
 * not (`hasBegun`). The FIFOs must exist and be held open by the caller.
 */
export async function begin(
  paths: HolderPaths,
  file: LaunchFile,
  at: { clock: Clock; firstSeq: number; terminal: Terminal | undefined },
): Promise<Begun> {
  const { cgroup } = file.run.isolation
  if (cgroup !== null) makeCgroup(cgroup, file.run.limits)
  const launched = await launchLocked(paths, file, at.terminal).catch((error: unknown) => {
    if (cgroup !== null) removeCgroup(cgroup)
    throw error
  })
  const wake = new Wake(at.clock)
  launched.launcher.once('exit', () => wake.now())
  let record: HolderRecord | undefined
  try {
    const handshake = new Handshake(launched.word)
    record = await prepare(paths, { file, launched, handshake, ...at })
    sendGo(launched.word, file.env)
    await becomeProgram(paths, { record, launched, handshake, wake })
    unlinkSync(paths.launch)
    launched.word.destroy()
    return { record, wake }
  } catch (error) {
    launched.word.destroy()
    if (launched.launcher.exitCode === null) await at.clock.sleep(200)
    launched.launcher.kill('SIGKILL')
    // A child that was merely slow has the word and would become a program that nobody knows of.
    if (record !== undefined) await killRun(scopeOf(record), at.clock)
    removeFile(paths.record)
    if (cgroup !== null) removeCgroup(cgroup)
    throw error
  }
}

async function launchLocked(paths: HolderPaths, file: LaunchFile, terminal: Terminal | undefined): Promise<Launched> {
  const options = { nofile: openFilesLimit(), terminal: terminal?.fd }
  if (file.run.isolation.locked !== true) return launch(paths, file, { ...options, userNamespace: undefined })
  const userNamespace = await openUserNamespace()
  try {
    return launch(paths, file, { ...options, userNamespace })
  } finally {
    closeSync(userNamespace)
  }
}

interface Preparing {
  file: LaunchFile
  launched: Launched
  handshake: Handshake
  clock: Clock
  firstSeq: number
  terminal: Terminal | undefined
}

/** Waits for the child's pid, puts it under its limits, and writes the record. */
async function prepare(paths: HolderPaths, of: Preparing): Promise<HolderRecord> {
  const { launcher } = of.launched
  const deadline = of.clock.monotonicMs() + PREPARE_MS
  while (of.handshake.pid === undefined) {
    if (launcher.exitCode !== null) throw new BeginFailure('The files folder of the server cannot be entered')
    if (of.clock.monotonicMs() > deadline) throw new BeginFailure('The program could not be prepared in time')
    await of.clock.sleep(2)
  }
  const { pid } = of.handshake
  const child = processFacts(pid)
  const launcherFacts = processFacts(launcher.pid ?? 0)
  if (child === undefined || launcherFacts === undefined) throw new BeginFailure('The program ended before it began')
  if (of.file.run.isolation.cgroup !== null) joinCgroup(of.file.run.isolation.cgroup, pid)
  preferForOom(pid)
  const record: HolderRecord = {
    kind: of.file.run.kind,
    launchId: of.file.run.launchId,
    pid,
    start: child.start,
    launcherPid: launcherFacts.pid,
    launcherStart: launcherFacts.start,
    startedAtMs: of.clock.nowMs(),
    firstSeq: of.firstSeq,
    run: of.file.run,
    bootId: bootId(),
    ...(of.terminal === undefined ? {} : { terminal: of.terminal.path }),
    ordered: false,
    by: null,
    forgotten: false,
  }
  replaceJson(paths.record, record)
  return record
}

interface Becoming {
  record: HolderRecord
  launched: Launched
  handshake: Handshake
  wake: Wake
}

/** Waits until the chain has become the program. */
async function becomeProgram(paths: HolderPaths, of: Becoming): Promise<void> {
  const { record, launched, wake } = of
  const deadline = wake.clock.monotonicMs() + PREPARE_MS
  while (launched.launcher.exitCode === null && launched.launcher.signalCode === null) {
    if (isProgram(record)) return
    if (wake.clock.monotonicMs() > deadline) throw new BeginFailure('The program could not be prepared in time')
    await wake.clock.sleep(2)
  }
  const end: ChildEnd = await childEnded(record, paths, wake)
  if (end.code === CHAIN_FAILED) throw new BeginFailure('The folders or limits of the server could not be set up')
  const complaint = of.handshake.complaint
  if (end.code === 127 && complaint !== '') throw new BeginFailure(`It could not be started: ${complaint}`)
  if (end.code === 126) throw new BeginFailure('It could not be started: the program may not be executed')
}

function preferForOom(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(OOM_SCORE))
  } catch {
    // a hint to the kernel; where it is refused, the server runs just as well
  }
}

/** The most files that may be open: what this process itself may have at most, up to 65,536. */
function openFilesLimit(): number {
  const limits = readFileSync('/proc/self/limits', 'latin1')
  const hard = /^Max open files\s+\S+\s+(\S+)/m.exec(limits)?.[1]
  return hard === undefined || hard === 'unlimited' ? MAX_OPEN_FILES : Math.min(MAX_OPEN_FILES, Number(hard))
}
