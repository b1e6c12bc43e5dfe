import { spawn } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../runtime/rig.ts'
import { EngineStage, noEngine } from './engine-stage.ts'

/** Why no service of Podman can be started here; `undefined` where one can. */
export function noPodman(): string | undefined {
  if (!existsSync('/usr/bin/podman')) return 'podman'
  // crun does not start containers where both versions of the kernel's groups are mounted.
  return ['/usr/sbin/runc', '/usr/bin/runc'].some((path) => existsSync(path)) ? noEngine() : 'runc'
}

/** A service of Podman on a socket of its own, with a store of its own. It has one image, `localhost/game:1`, of a busybox. */
export class PodmanStage extends EngineStage {
  override startContainerd(): void {} // conmon holds its containers

  /** Names without a registry are Docker's own there, and the service passes the tag of what it imports over. */
  override async importImage(name: string): Promise<void> {
    await super.importImage(`localhost/${name}`)
    const [repo, tag] = `localhost/${name}`.split(':')
    await this.call('POST', `/images/${repo}:latest/tag?repo=${repo}&tag=${tag}`)
  }

  override async startEngine(): Promise<void> {
    const at = (name: string): string => join(this.folder, name)
    const log = openSync(at('log'), 'a')
    const service = spawn('podman', ['system', 'service', '-t', '0', `unix://${this.socket}`], {
      stdio: ['ignore', log, log],
      env: this.#environment(),
    })
    closeSync(log)
    this.daemon = service
    await until('the service', async () => {
      if (service.exitCode !== null) throw new Error(`the service has ended: ${readFileSync(at('log'), 'utf8')}`)
      return (await this.call('GET', '/_ping').catch(() => '')) === 'OK'
    })
  }

  /** Its own files of settings in place of the machine's. */
  #environment(): Record<string, string> {
    const at = (name: string): string => join(this.folder, name)
    const files = {
      'containers.conf': [
        '[containers]',
        // The service asks for more processes than it may have itself where it lacks the capability for that.
        'default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]',
        '[engine]',
        'runtime = "runc"',
        'cgroup_manager = "cgroupfs"',
        'events_logger = "file"',
      ],
      'storage.conf': ['[storage]', 'driver = "overlay"', `runroot = "${at('run')}"`, `graphroot = "${at('data')}"`],
      'registries.conf': ['unqualified-search-registries = ["docker.io"]'],
    }
    for (const [name, lines] of Object.entries(files)) writeFileSync(at(name), `${lines.join('\n')}\n`)
    return {
      PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
      HOME: this.folder,
      CONTAINERS_CONF: at('containers.conf'),
      CONTAINERS_STORAGE_CONF: at('storage.conf'),
      CONTAINERS_REGISTRIES_CONF: at('registries.conf'),
    }
  }
}
