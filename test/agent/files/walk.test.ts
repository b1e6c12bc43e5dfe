import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FolderHandle } from '../../../src/agent/files/folder-handle.ts'
import { emptyFolder, removeFolder, treeBytes } from '../../../src/agent/files/tree.ts'
import { type Visitor, walk } from '../../../src/agent/files/walk.ts'
import { giveTo } from '../../../src/agent/runtime/ownership.ts'
import { DIST } from '../../run-panel.ts'
import { skippedUnless } from '../../skips.ts'
import { asNobody, isRoot, until } from '../runtime/rig.ts'
import { bytesByDu, hideFile, nestFolders, openBelow, ROOMY } from './hostile-tree.ts'

const NO_ROOT = skippedUnless(isRoot, 'root')

const MIB = 1024 * 1024
const forever = { signal: new AbortController().signal }
let base: string
let files: string
let outside: string

beforeEach(() => {
  base = mkdtempSync(join(ROOMY, 'panel-walk-'))
  chmodSync(base, 0o755)
  files = join(base, 'files')
  outside = join(base, 'outside')
  mkdirSync(files)
  mkdirSync(outside)
  writeFileSync(join(outside, 'precious'), 'keep')
})
afterEach(() => {
  execFileSync('rm', ['-rf', base])
})

async function visit(folder: string, visitor: Visitor): Promise<void> {
  const root = FolderHandle.open(folder)
  if (root === undefined) throw new Error('no folder')
  await walk(root, visitor).finally(() => root.close())
}

describe('the disk use of a folder', () => {
  it('counts what hides behind names that are no UTF-8, paths beyond 4,096 bytes and folders without a mode', {
    tags: ['long'],
  }, async () => {
    hideFile(files, 3)
    nestFolders(files, 5000, 2)
    const long = join(files, 'n'.repeat(255))
    mkdirSync(long)
    nestFolders(long, 40, 1)
    mkdirSync(join(files, 'closed'))
    writeFileSync(join(files, 'closed', 'x'), 'x'.repeat(MIB))
    chmodSync(join(files, 'closed'), 0)
    const bytes = await treeBytes(files, forever)
    expect(openBelow(files)).toEqual([])
    expect(bytes).toBe(bytesByDu(files))
    expect(bytes).toBeGreaterThanOrEqual(7 * MIB)
  })

  it('counts holes as nothing, several names of a file once, and nothing behind links', async () => {
    const data = join(files, 'data')
    writeFileSync(data, 'x'.repeat(MIB))
    for (let i = 0; i < 5; i++) linkSync(data, join(files, `again-${i}`))
    writeFileSync(join(files, 'hole'), '')
    truncateSync(join(files, 'hole'), 1024 * MIB)
    execFileSync('mkfifo', [join(files, 'pipe')])
    mkdirSync(join(outside, 'big'))
    writeFileSync(join(outside, 'big', 'x'), 'x'.repeat(4 * MIB))
    symlinkSync(join(outside, 'big'), join(files, 'link'))
    expect(await treeBytes(files, forever)).toBe(bytesByDu(files))
  })

  it('is counted no further than what is enough', async () => {
    for (let i = 0; i < 2000; i++) writeFileSync(join(files, `f${i}`), 'x')
    const all = await treeBytes(files, forever)
    const enough = await treeBytes(files, { ...forever, enoughBytes: 4096 })
    expect(enough).toBeGreaterThanOrEqual(4096)
    expect(enough).toBeLessThan(all)
  })

  it('is nothing for a folder that is a link', async () => {
    symlinkSync(outside, join(base, 'link'))
    expect(await treeBytes(join(base, 'link'), forever)).toBe(0)
  })
})

describe('a walk', () => {
  it('comes back only to the folders that it has left, when one of them is moved away meanwhile', async () => {
    // Deeper than what is held open, so that the way up leads over `..`.
    nestFolders(files, 60)
    const at = (depth: number): string => join(files, 'd/'.repeat(depth))
    for (const depth of [5, 40]) mkdirSync(join(at(depth), 'e'))
    mkdirSync(join(at(25), 'd', 'f'))
    let depth = 0
    const left: string[] = []
    const met: string[] = []
    await visit(files, {
      enter: () => {
        depth++
        if (depth === 60) renameSync(at(30), join(outside, 'moved'))
      },
      leave: (_folder, name) => left.push(name.toString()),
      entry: (_folder, name) => met.push(name.toString()),
    })
    expect(met).not.toContain('precious')
    expect(existsSync(join(outside, 'moved', 'd'))).toBe(true)
    // Of the way down, the 30 steps that are where they were, and the 29 inside what was moved, but not the step between.
    expect(left.filter((name) => name === 'd').length).toBeLessThan(60)
    expect(left.filter((name) => name === 'd').length).toBeGreaterThanOrEqual(29)
  })

  it('meets each of 5,000 folders of one folder once', { tags: ['long'] }, async () => {
    execFileSync('sh', ['-c', 'cd "$1" && seq -f "d%.0f" 5000 | xargs mkdir && touch d7/x z', 'sh', files])
    const names = new Set<string>()
    let met = 0
    const found: string[] = []
    await visit(files, {
      leave: (_folder, name) => {
        met++
        names.add(name.toString())
      },
      entry: (_folder, name) => found.push(name.toString()),
    })
    expect([met, names.size, found.sort()]).toEqual([5000, 5000, ['x', 'z']])
    await removeFolder(files)
    expect(existsSync(files)).toBe(false)
  })

  it('takes no name for an entry that would lead elsewhere', () => {
    const root = FolderHandle.open(files)
    for (const name of ['', '.', '..', '../outside', 'a/b', 'a\0b']) {
      expect(() => root?.pathOf(Buffer.from(name)), name).toThrow(RangeError)
    }
    root?.close()
  })
})

describe('the removal of a folder', () => {
  it('takes everything with few descriptors: bytes for names, 3,000 levels, FIFOs, closed folders, links as links', () => {
    hideFile(files, 0)
    nestFolders(files, 3000)
    execFileSync('mkfifo', [join(files, 'pipe\n')])
    mkdirSync(join(files, 'closed', 'in'), { recursive: true })
    writeFileSync(join(files, 'closed', 'in', 'x'), '')
    symlinkSync(outside, join(files, 'closed', 'escape'))
    symlinkSync(outside, join(files, 'escape'))
    linkSync(join(outside, 'precious'), join(files, 'second'))
    if (isRoot) execFileSync('chown', ['-hR', '65534:65534', base])
    chmodSync(join(files, 'closed', 'in'), 0)
    chmodSync(join(files, 'closed'), 0)
    const program = `const { removeFolder } = await import('${DIST}/src/agent/files/tree.js'); await removeFolder(process.argv[1])`
    const node = ['prlimit', '--nofile=90', process.execPath, '--input-type=module', '-e', program, files] as const
    // As the user whose files they are: root would not notice the modes.
    if (isRoot) asNobody(node)
    else execFileSync(node[0], node.slice(1))
    expect(existsSync(files)).toBe(false)
    expect(readFileSync(join(outside, 'precious'), 'utf8')).toBe('keep')
  })

  it('leads nowhere else while somebody swaps folders for links and moves them about', async () => {
    const program = `
import os, sys
os.chdir(sys.argv[1])
out = sys.argv[2]
os.makedirs('a/' + 'd/' * 50)
open('ready', 'w').close()
while True:
    try:
        os.makedirs('b/c', exist_ok=True)
        open('b/c/x', 'w').close()
        os.rename('b', 'old')
        os.symlink(out, 'b')
        os.rename('a/d/d/d', 'old/d')
        os.rename('old/d', 'a/d/d/d')
        os.unlink('b')
        os.rename('old', 'b')
    except OSError:
        try:
            os.makedirs('a/' + 'd/' * 50, exist_ok=True)
        except OSError:
            pass
        for name in ('b', 'old'):
            if os.path.islink(name): os.unlink(name)
`
    mkdirSync(join(outside, 'c'))
    writeFileSync(join(outside, 'c', 'x'), 'keep')
    const rival = spawn('python3', ['-c', program, files, outside], { stdio: ['ignore', 'ignore', 'inherit'] })
    await until('the rival', () => existsSync(join(files, 'ready')))
    for (let i = 0; i < 30; i++) await emptyFolder(files).catch(() => undefined) // it comes back: that is what the rival does
    rival.kill('SIGKILL')
    await once(rival, 'exit')
    await removeFolder(files)
    expect(existsSync(files)).toBe(false)
    expect(readFileSync(join(outside, 'c', 'x'), 'utf8')).toBe('keep')
    expect(readFileSync(join(outside, 'precious'), 'utf8')).toBe('keep')
  })

  it('removes a link in place of the folder as a link', async () => {
    symlinkSync(outside, join(base, 'link'))
    await removeFolder(join(base, 'link'))
    expect(existsSync(join(base, 'link'))).toBe(false)
    expect(readdirSync(outside)).toEqual(['precious'])
  })

  it.runIf(isRoot)(`does not enter what is mounted there, says so, and takes all else${NO_ROOT}`, async () => {
    mkdirSync(join(files, 'mount'))
    mkdirSync(join(files, 'z'))
    const program = `const { removeFolder } = await import('${DIST}/src/agent/files/tree.js')
      await removeFolder(process.argv[1]).catch((error) => console.log(error.code))`
    const script = 'mount --bind "$1" "$2/mount" && "$3" --input-type=module -e "$4" "$2"; ls "$2"'
    const args = ['sh', '-c', script, 'sh', outside, files, process.execPath, program]
    const said = execFileSync('unshare', ['--mount', '--propagation', 'private', ...args], { encoding: 'utf8' })
    expect(said).toBe('EBUSY\nmount\n')
    expect(readdirSync(outside)).toEqual(['precious'])
  })
})

describe.runIf(isRoot)(`the owner of a server’s files${NO_ROOT}`, () => {
  const UID = 70_123

  it('gets folders, files and links themselves, and nothing that has another name or is behind a link', async () => {
    nestFolders(files, 100)
    hideFile(files, 0)
    writeFileSync(join(files, 'mine'), '')
    chmodSync(join(files, 'mine'), 0o4755)
    symlinkSync(join(outside, 'precious'), join(files, 'link'))
    symlinkSync(outside, join(files, 'folder-link'))
    linkSync(join(outside, 'precious'), join(files, 'second'))
    execFileSync('mknod', [join(files, 'device'), 'c', '1', '3'])
    execFileSync('mkfifo', [join(files, 'pipe')])
    await giveTo(files, UID)
    const owners = execFileSync('find', [files, '-not', '-uid', String(UID), '-printf', '%f\n'], { encoding: 'utf8' })
    expect(owners.trim().split('\n').sort()).toEqual(['device', 'second'])
    expect(lstatSync(join(files, 'link')).uid).toBe(UID)
    expect(lstatSync(join(files, 'link')).gid).toBe(UID)
    expect(statSync(join(files, 'mine')).mode & 0o7777).toBe(0o755)
    expect([statSync(outside).uid, statSync(join(outside, 'precious')).uid]).toEqual([0, 0])
    expect(statSync(files).mode & 0o777).toBe(0o700)
  })

  it('is not changed through a link that takes the place of a file in that moment', () => {
    symlinkSync(join(outside, 'precious'), join(files, 'swapped'))
    writeFileSync(join(files, 'before'), '')
    const root = FolderHandle.open(files)
    root?.giveEntry(Buffer.from('before'), UID, () => {
      // The name means something else from here on.
      renameSync(join(files, 'swapped'), join(files, 'before'))
      return true
    })
    root?.close()
    expect(statSync(join(outside, 'precious')).uid).toBe(0)
    expect(lstatSync(join(files, 'before')).uid).toBe(0)
  })

  it('is refused for a link in place of the folder', async () => {
    chownSync(outside, 0, 0)
    rmSync(files, { recursive: true })
    symlinkSync(outside, files)
    await expect(giveTo(files, UID)).rejects.toThrow()
    expect(statSync(outside).uid).toBe(0)
  })
})
