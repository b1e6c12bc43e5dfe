import { z } from 'zod'
import * as backups from '../../src/shared/protocol/backups.ts'
import {
  fetchConsole,
  subscribeConsole,
  typeConsoleLines,
  unsubscribeConsole,
} from '../../src/shared/protocol/console.ts'
import * as fileOperations from '../../src/shared/protocol/file-operations.ts'
import { receiveFile, sendConsoleLog, sendFile, statFile, uploadOffset } from '../../src/shared/protocol/files.ts'
import { DaemonFrame } from '../../src/shared/protocol/frames.ts'
import * as migration from '../../src/shared/protocol/migration.ts'
import { checkPorts, describeOrphan, listOrphans } from '../../src/shared/protocol/node.ts'
import { answerEula, CommandOp, watchStats } from '../../src/shared/protocol/server.ts'

/** Every request that stands on the wire. */
export const AgentRequest = z.discriminatedUnion('op', [
  typeConsoleLines.wire,
  subscribeConsole.wire,
  unsubscribeConsole.wire,
  fetchConsole.wire,
  checkPorts.wire,
  listOrphans.wire,
  describeOrphan.wire,
  watchStats.wire,
  statFile.wire,
  uploadOffset.wire,
  sendFile.wire,
  receiveFile.wire,
  sendConsoleLog.wire,
  answerEula.wire,
  backups.probeStore.wire,
  backups.createBackup.wire,
  backups.restoreBackup.wire,
  backups.receiveBackup.wire,
  backups.describeBackup.wire,
  backups.deliverBackup.wire,
  backups.listBackupEntries.wire,
  backups.verifyBackups.wire,
  backups.deleteBackup.wire,
  backups.pruneBackups.wire,
  backups.listStored.wire,
  migration.pullFiles.wire,
  migration.askFiles.wire,
  migration.verifyFiles.wire,
  migration.placeFiles.wire,
  migration.wipeFiles.wire,
  migration.listDirectory.wire,
  fileOperations.listFolder.wire,
  fileOperations.describeEntry.wire,
  fileOperations.makeServerFolder.wire,
  fileOperations.renameEntry.wire,
  fileOperations.linkEntry.wire,
  fileOperations.copyEntry.wire,
  fileOperations.deleteEntries.wire,
  fileOperations.setModes.wire,
  fileOperations.sumFiles.wire,
  fileOperations.measureFolders.wire,
  fileOperations.searchFiles.wire,
  fileOperations.compressFiles.wire,
  fileOperations.extractArchive.wire,
  fileOperations.listArchive.wire,
  fileOperations.sendTree.wire,
  fileOperations.receiveTree.wire,
  fileOperations.pullFile.wire,
])
export type AgentRequest = z.infer<typeof AgentRequest>

type Command = Extract<DaemonFrame, { type: 'command' }>
type Request = Extract<DaemonFrame, { type: 'request' }>

/** A frame of the daemon with its request or command as their definitions say. */
export type SentFrame =
  | Exclude<DaemonFrame, Command | Request>
  | (Omit<Command, 'command'> & { readonly command: CommandOp })
  | (Omit<Request, 'request'> & { readonly request: AgentRequest })

/** Reads a frame of the daemon; throws for what no agent of today understands. */
export function readSent(value: unknown): SentFrame {
  const frame = DaemonFrame.parse(value)
  if (frame.type === 'command') return { ...frame, command: CommandOp.parse(frame.command) }
  if (frame.type === 'request') return { ...frame, request: AgentRequest.parse(frame.request) }
  return frame
}
