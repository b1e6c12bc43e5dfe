import { spawnSync } from 'node:child_process'

/** Whether this machine lets root make private mounts. */
export function canMount(): boolean {
  const script = 'mount -t tmpfs none /mnt'
  return spawnSync('unshare', ['--mount', '--propagation', 'private', '/bin/sh', '-c', script]).status === 0
}
