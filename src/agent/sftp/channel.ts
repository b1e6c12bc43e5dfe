import type { Duplex } from 'node:stream'
import { AgentFailure } from '../failure.ts'
import { codeOf } from '../files/folder-handle.ts'
import { type AgentLog, errorText } from '../logger.ts'
import type { OpenedFile, OpenedFolder, SftpFiles } from './files.ts'
import {
  attributesPacket,
  BadPacket,
  DataPacket,
  extendedPacket,
  handlePacket,
  MOST_DATA,
  MOST_PACKET,
  type NameEntry,
  namesPacket,
  PacketCutter,
  PacketReader,
  REQUEST,
  STATUS_CODE,
  type StatusCode,
  statusPacket,
  versionPacket,
} from './packets.ts'

/** Files and folders that one channel may have open. */
const MOST_HANDLES = 256
const DONE = 'done'

/** A channel of SSH, as far as SFTP needs it. */
export interface SshChannel extends Duplex {
  exit(status: number): void
  close(): void
}

/** What a channel works with. */
export interface ChannelParts {
  readonly files: SftpFiles
  readonly log: AgentLog
  /** Something has come: the connection is not idle. */
  readonly heard: () => void
  /** Resolves when what was sent has gone out, or nothing goes out any more. */
  readonly sent: () => Promise<void>
}

/**
 * Speaks SFTP over a channel until it ends. Requests are carried out in the order in which they come, one after the other, and nothing
 * more is read from the network while one is under way: what a client has sent ahead waits there and not in memory. Resolves when all
 * handles are closed.
 */
export function serveChannel(channel: SshChannel, parts: ChannelParts): Promise<void> {
  const sftp = new SftpChannel(channel, parts)
  let working = Promise.resolve()
  return new Promise((resolve) => {
    let isOver = false
    const finish = (status: number): void => {
      if (isOver) return
      isOver = true
      void working
        .then(() => sftp.closeAll())
        .then(() => {
          // A client waits for the end of its channel before it ends itself.
          channel.exit(status)
          channel.end()
          channel.close()
        })
        .finally(resolve)
    }
    channel.on('data', (piece: Buffer) => {
      channel.pause()
      parts.heard()
      working = working
        .then(() => (isOver ? undefined : sftp.take(piece)))
        .then(
          () => void channel.resume(),
          (error: unknown) => {
            parts.log.info({ err: errorText(error) }, 'SFTP channel is closed')
            finish(1)
          },
        )
    })
    channel.on('end', () => finish(0))
    channel.on('close', () => finish(0))
    channel.on('error', () => finish(1))
  })
}

type Answer = Buffer | typeof DONE

class SftpChannel {
  readonly #channel: SshChannel
  readonly #parts: ChannelParts
  readonly #cutter = new PacketCutter()
  readonly #handles = new Map<number, OpenedFile | OpenedFolder>()
  #lastHandle = 0
  #isGreeted = false

  constructor(channel: SshChannel, parts: ChannelParts) {
    this.#channel = channel
    this.#parts = parts
  }

  async take(piece: Buffer): Promise<void> {
    for (const packet of this.#cutter.take(piece)) await this.#send(await this.#answer(packet))
  }

  async closeAll(): Promise<void> {
    for (const opened of this.#handles.values()) {
      await this.#parts.files.close(opened).catch((error: unknown) => {
        this.#parts.log.info({ err: errorText(error) }, 'file of an ended SFTP channel was not closed cleanly')
      })
    }
    this.#handles.clear()
  }

  async #answer(bytes: Buffer): Promise<Buffer> {
    const packet = new PacketReader(bytes)
    const type = packet.byte()
    if (!this.#isGreeted) {
      if (type !== REQUEST.init) throw new BadPacket('the first packet is no greeting')
      packet.uint32()
      this.#isGreeted = true
      return versionPacket()
    }
    const id = packet.uint32()
    try {
      const answer = await this.#carryOut(type, id, packet)
      return answer === DONE ? statusPacket(id, STATUS_CODE.ok, 'Success') : answer
    } catch (error) {
      const [code, message] = statusOf(error)
      if (code === STATUS_CODE.failure && !(error instanceof AgentFailure) && codeOf(error) === undefined) {
        this.#parts.log.error({ err: errorText(error) }, 'SFTP request failed unexpectedly')
      }
      return statusPacket(id, code, message)
    }
  }

  async #carryOut(type: number, id: number, packet: PacketReader): Promise<Answer> {
    const { files } = this.#parts
    switch (type) {
      case REQUEST.open: {
        const [path, flags, attributes] = [packet.string(), packet.uint32(), packet.attributes()]
        this.#refuseTooMany()
        return handlePacket(id, this.#keep(await files.open(path, flags, attributes)))
      }
      case REQUEST.opendir: {
        const path = packet.string()
        this.#refuseTooMany()
        return handlePacket(id, this.#keep(await files.opendir(path)))
      }
      case REQUEST.close: {
        const handle = packet.handle()
        const opened = this.#opened(handle)
        this.#handles.delete(handle)
        await files.close(opened)
        return DONE
      }
      case REQUEST.read:
        return await this.#read(id, packet)
      case REQUEST.write: {
        const [opened, offset, bytes] = [this.#file(packet.handle()), packet.uint64(), packet.string()]
        await files.write(opened, bytes, offset)
        return DONE
      }
      case REQUEST.readdir: {
        const opened = this.#opened(packet.handle())
        if (opened.kind !== 'folder') throw new AgentFailure('BAD_REQUEST', 'The handle is that of a file')
        const entries = files.readdir(opened)
        return entries.length > 0 ? namesPacket(id, entries) : statusPacket(id, STATUS_CODE.eof, 'End of folder')
      }
      case REQUEST.stat:
        return attributesPacket(id, await files.stat(packet.string()))
      case REQUEST.lstat:
        return attributesPacket(id, await files.lstat(packet.string()))
      case REQUEST.fstat:
        return attributesPacket(id, await files.fstat(this.#opened(packet.handle())))
      case REQUEST.setstat:
        await files.setstat(packet.string(), packet.attributes())
        return DONE
      case REQUEST.fsetstat:
        await files.fsetstat(this.#opened(packet.handle()), packet.attributes())
        return DONE
      case REQUEST.remove:
        await files.remove(packet.string())
        return DONE
      case REQUEST.mkdir:
        await files.mkdir(packet.string(), packet.attributes())
        return DONE
      case REQUEST.rmdir:
        await files.rmdir(packet.string())
        return DONE
      case REQUEST.rename:
        await files.rename(packet.string(), packet.string(), false)
        return DONE
      case REQUEST.realpath:
        return namesPacket(id, [nameOnly(files.realpath(packet.string()))])
      case REQUEST.readlink:
        return namesPacket(id, [nameOnly(await files.readlink(packet.string()))])
      case REQUEST.symlink: {
        // All clients send what OpenSSH's does: first where it leads, then its own path.
        const [target, path] = [packet.string(), packet.string()]
        await files.symlink(target, path)
        return DONE
      }
      case REQUEST.extended:
        return await this.#extended(id, packet)
      default:
        return statusPacket(id, STATUS_CODE.unsupported, 'This is not supported')
    }
  }

  async #extended(id: number, packet: PacketReader): Promise<Answer> {
    const { files } = this.#parts
    switch (packet.string().toString('latin1')) {
      case 'posix-rename@openssh.com':
        await files.rename(packet.string(), packet.string(), true)
        return DONE
      case 'fsync@openssh.com':
        await files.sync(this.#file(packet.handle()))
        return DONE
      case 'statvfs@openssh.com':
        return extendedPacket(id, await files.statvfs())
      case 'limits@openssh.com': {
        const data = BigInt(MOST_DATA)
        return extendedPacket(id, [BigInt(MOST_PACKET), data, data, BigInt(MOST_HANDLES)])
      }
      default:
        return statusPacket(id, STATUS_CODE.unsupported, 'This extension is not supported')
    }
  }

  async #read(id: number, packet: PacketReader): Promise<Buffer> {
    const [opened, offset, length] = [this.#file(packet.handle()), packet.uint64(), packet.uint32()]
    const answer = new DataPacket(id, Math.min(length, MOST_DATA))
    const bytes = await this.#parts.files.read(opened, answer.room, offset)
    return bytes === 0 && length > 0 ? statusPacket(id, STATUS_CODE.eof, 'End of file') : answer.with(bytes)
  }

  #refuseTooMany(): void {
    if (this.#handles.size < MOST_HANDLES) return
    throw new AgentFailure('CONFLICT_STATE', `You have ${MOST_HANDLES} files and folders open; close some first`)
  }

  #keep(opened: OpenedFile | OpenedFolder): number {
    do this.#lastHandle = (this.#lastHandle + 1) >>> 0
    while (this.#handles.has(this.#lastHandle))
    this.#handles.set(this.#lastHandle, opened)
    return this.#lastHandle
  }

  #opened(handle: number): OpenedFile | OpenedFolder {
    const opened = this.#handles.get(handle)
    if (opened === undefined) throw new AgentFailure('BAD_REQUEST', 'There is no such handle')
    return opened
  }

  #file(handle: number): OpenedFile {
    const opened = this.#opened(handle)
    if (opened.kind === 'file') return opened
    throw new AgentFailure('BAD_REQUEST', 'The handle is that of a folder')
  }

  async #send(packet: Buffer): Promise<void> {
    const takesMore = this.#channel.write(packet)
    await this.#parts.sent()
    if (takesMore) return
    await new Promise<void>((resolve) => {
      const done = (): void => {
        for (const event of ['drain', 'close', 'error']) this.#channel.off(event, done)
        resolve()
      }
      for (const event of ['drain', 'close', 'error']) this.#channel.on(event, done)
    })
  }
}

function nameOnly(name: Buffer): NameEntry {
  return { name, longName: name, attributes: {} }
}

/** How a failure is shown to a client, which often shows nothing but the code. */
function statusOf(error: unknown): readonly [StatusCode, string] {
  if (error instanceof BadPacket) return [STATUS_CODE.badMessage, error.message]
  if (error instanceof AgentFailure) {
    if (error.code === 'NOT_FOUND') return [STATUS_CODE.noSuchFile, error.message]
    const isDenied = error.code === 'PATH_INVALID' || error.code === 'DENIED'
    return [isDenied ? STATUS_CODE.permissionDenied : STATUS_CODE.failure, error.message]
  }
  const code = codeOf(error)
  if (code === 'ENOENT' || code === 'ENOTDIR') return [STATUS_CODE.noSuchFile, 'No such file']
  if (code === 'EACCES' || code === 'EPERM' || code === 'ELOOP' || code === 'EROFS') {
    return [STATUS_CODE.permissionDenied, `Permission denied (${code})`]
  }
  if (code === 'ENOSPC' || code === 'EDQUOT') return [STATUS_CODE.failure, 'The disk is full']
  return [STATUS_CODE.failure, code === undefined ? 'It failed' : `It failed (${code})`]
}
