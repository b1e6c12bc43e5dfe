import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { DIST } from '../../run-panel.ts'

/** A folder with `boot/vmlinuz-*` and `lib/modules/*`, such as an unpacked linux-image-cloud-amd64; by default this machine's own. */
const KERNEL_ROOT = process.env['PANEL_TEST_KERNEL_ROOT'] ?? '/'
const QEMU = 'qemu-system-x86_64'
/** What the machine has beside busybox and node. */
const PROGRAMS = [
  'chattr', 'lsattr', 'setquota', 'xfs_quota', 'flock', 'mkfifo', 'setsid', 'prlimit', 'setpriv', 'unshare', 'nsenter', 'mount',
  'umount', 'cat', 'dd', 'rmdir',
] // biome-ignore format: a list
const SHELL = '/bin/dash'
const MODULES = ['virtio_pci', 'virtio_blk', 'ext4', 'xfs', 'quota_v2', 'tmpfs'] as const
const BOOT_MS = 300_000

/** What the machine needs of this one; `undefined`: nothing is missing. */
export function missingForMachine(): string | undefined {
  if (kernel() === undefined) return 'a kernel of linux-image-cloud-amd64'
  const needed = [QEMU, 'busybox', 'cpio', 'mkfs.ext4', 'mkfs.xfs', basename(SHELL), ...PROGRAMS]
  return needed.find((program) => pathOf(program) === undefined)
}

/**
 * Boots a small machine with a kernel of its own, emulated, in which `program` runs by node with disks of ext4 (vda) and xfs (vdb), and
 * answers the lines that it prints behind `RESULT `.
 */
export async function runInMachine(program: string): Promise<Record<string, unknown>[]> {
  const found = kernel()
  if (found === undefined) throw new Error('there is no kernel')
  const base = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'panel-vm-'))
  try {
    const disks = [
      makeDisk(join(base, 'ext4'), ['mkfs.ext4', '-q', '-O', 'quota,project', '-E', 'quotatype=prjquota']),
      makeDisk(join(base, 'xfs'), ['mkfs.xfs', '-q']),
    ]
    const initrd = makeInitrd(base, program, found)
    const args = [
      '-accel',
      'tcg',
      '-cpu',
      'max',
      '-m',
      '1024',
      '-smp',
      '2',
      '-nographic',
      '-no-reboot',
      '-kernel',
      found.image,
    ]
    const drives = disks.flatMap((file) => ['-drive', `file=${file},if=virtio,format=raw`])
    const line = 'console=ttyS0 panic=-1 quiet cgroup_no_v1=all'
    const machine = spawn(QEMU, [...args, '-initrd', initrd, '-append', line, ...drives], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let said = ''
    for (const stream of [machine.stdout, machine.stderr])
      stream.on('data', (chunk: Buffer) => (said += chunk.toString()))
    const timer = setTimeout(() => machine.kill('SIGKILL'), BOOT_MS)
    await once(machine, 'close')
    clearTimeout(timer)
    const results = said.split('\n').filter((text) => text.startsWith('RESULT '))
    if (results.length === 0) throw new Error(`the machine said nothing of use:\n${said.slice(-4000)}`)
    return results.map((text) => JSON.parse(text.slice(7)))
  } finally {
    rmSync(base, { recursive: true, force: true })
  }
}

interface Kernel {
  readonly image: string
  readonly modules: string
}

function kernel(): Kernel | undefined {
  const boot = join(KERNEL_ROOT, 'boot')
  const names = existsSync(boot) ? readdirSync(boot).filter((name) => name.startsWith('vmlinuz-')) : []
  for (const name of names) {
    const modules = join(KERNEL_ROOT, 'lib', 'modules', name.slice('vmlinuz-'.length))
    if (existsSync(modules)) return { image: join(boot, name), modules }
  }
  return undefined
}

function makeDisk(file: string, [program = '', ...args]: readonly string[]): string {
  writeFileSync(file, '')
  truncateSync(file, 400 * 1024 * 1024)
  execFileSync(program, [...args, file], { stdio: 'pipe' })
  return file
}

function makeInitrd(base: string, program: string, { modules }: Kernel): string {
  const root = join(base, 'root')
  for (const folder of ['bin', 'dev', 'proc', 'sys', 'tmp', 'mnt', 'modules', 'run'])
    mkdirSync(join(root, folder), { recursive: true })
  for (const name of ['busybox', ...PROGRAMS]) copyWithLibraries(pathOf(name) ?? name, root, join('bin', name))
  copyWithLibraries(process.execPath, root, join('bin', 'node'))
  // The shell of busybox prefers its own applets, which know fewer options, to the programs that it is told to run.
  copyWithLibraries(SHELL, root, join('bin', 'sh'))
  cpSync(join(DIST, 'src'), join(root, 'panel', 'src'), { recursive: true })
  cpSync(join(DIST, 'bin'), join(root, 'panel', 'bin'), { recursive: true })
  cpSync(join(DIST, 'node_modules', 'zod'), join(root, 'panel', 'node_modules', 'zod'), {
    recursive: true,
    dereference: true,
  })
  writeFileSync(join(root, 'panel', 'package.json'), '{"type":"module"}')
  cpSync(program, join(root, 'panel', 'program.mjs'))
  const order = copyModules(modules, root)
  writeFileSync(join(root, 'init'), initScript(order), { mode: 0o755 })
  const file = join(base, 'initrd')
  execFileSync('/bin/sh', ['-c', `find . | cpio -o -H newc --quiet > ${file}`], { cwd: root, stdio: 'pipe' })
  rmSync(root, { recursive: true })
  return file
}

function initScript(modules: readonly string[]): string {
  return `#!/bin/busybox sh
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin
busybox mount -t proc proc /proc; busybox mount -t sysfs sys /sys; busybox mount -t devtmpfs dev /dev
busybox mkdir -p /dev/shm /sys/fs/cgroup; busybox mount -t tmpfs tmp /tmp; busybox mount -t cgroup2 cgroup2 /sys/fs/cgroup
for name in ${modules.join(' ')}; do busybox insmod /modules/$name; done
busybox mkdir -p /mnt2 /data/ext4 /data/xfs
busybox mount -t ext4 -o prjquota /dev/vda /data/ext4; busybox mount -t xfs -o prjquota /dev/vdb /data/xfs
busybox ip link set lo up
cd /panel && /bin/node program.mjs
busybox poweroff -f
`
}

/** The modules with those that they need, in the order in which they are loaded. */
function copyModules(folder: string, root: string): string[] {
  const needs = new Map<string, string[]>()
  for (const line of modulesDep(folder).split('\n')) {
    const [path, others] = line.split(':')
    if (path !== undefined && others !== undefined) needs.set(path, others.trim().split(' ').filter(Boolean))
  }
  const order: string[] = []
  const add = (path: string): void => {
    for (const other of needs.get(path) ?? []) add(other)
    const name = basename(path)
    if (order.includes(name)) return
    cpSync(join(folder, path), join(root, 'modules', name))
    order.push(name)
  }
  for (const name of [...MODULES, 'crc32c_generic']) {
    const path = [...needs.keys()].find((one) => basename(one).startsWith(`${name}.ko`))
    if (path !== undefined) add(path)
  }
  return order
}

/** An image that was only unpacked has no list of what modules need yet. */
function modulesDep(folder: string): string {
  const file = join(folder, 'modules.dep')
  if (!existsSync(file)) execFileSync('busybox', ['depmod', '-b', KERNEL_ROOT, basename(folder)], { stdio: 'pipe' })
  return readFileSync(file, 'utf8')
}

function copyWithLibraries(from: string, root: string, to: string): void {
  mkdirSync(dirname(join(root, to)), { recursive: true })
  cpSync(from, join(root, to), { dereference: true })
  let listed = ''
  try {
    listed = execFileSync('ldd', [from], { encoding: 'utf8', stdio: 'pipe' })
  } catch {
    return // a static program
  }
  for (const word of listed.split(/\s+/).filter((one) => one.startsWith('/'))) {
    const target = join(root, word)
    if (existsSync(target)) continue
    mkdirSync(dirname(target), { recursive: true })
    cpSync(word, target, { dereference: true })
  }
}

function pathOf(program: string): string | undefined {
  return ['/usr/bin', '/usr/sbin', '/bin', '/sbin']
    .map((folder) => join(folder, program))
    .find((path) => existsSync(path))
}
