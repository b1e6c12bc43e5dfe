import { spawn } from 'node:child_process'
import { existsSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../runtime/rig.ts'
import { EngineStage, noEngine } from './engine-stage.ts'

/** Why no service of Podman can be started here; `undefined` where one can. */
export function noPodman(): string | undefined {
  if (!existsSync('/usr/bin/podman')) return 'podman'
  // crun does not start containers where both versions of the kernel's groups are mounted.
  return ['/usr/sbin/runc', '/usr/bin/runc'].some((path) => existsSync(path)) ? noEngine() : 'runc'
}

/** A service of Podman on a socket of its own, with a store of its own. It has one image, `game:1`, of a busybox. */
export class PodmanStage extends EngineStage {
  override startContainerd(): void {} // conmon holds its containers

  /** The service passes the tag over. */
  override async importImage(name: string): Promise<void> {
    await super.importImage(name)
    const [repo, tag] = name.split(':')
    await this.call('POST', `/images/localhost/${repo}:latest/tag?repo=localhost/${repo}&tag=${tag}`)
  }

  override async startEngine(): Promise<void> {
    const at = (name: string): string => join(this.folder, name)
    const config = ['[containers]', 'default_ulimits = ["nofile=20000:20000"]', '[engine]', 'runtime = "runc"']
    const settings = [
      ...config,
      'cgroup_manager = "cgroupfs"',
      'events_logger = "file"',
      'compat_api_enforce_docker_hub = false',
    ]
    writeFileSync(at('containers.conf'), settings.join('\n'))
    const store = ['[storage]', 'driver = "overlay"', `runroot = "${at('run')}"`, `graphroot = "${at('data')}"`]
    writeFileSync(at('storage.conf'), store.join('\n'))
    writeFileSync(at('registries.conf'), 'unqualified-search-registries = ["docker.io"]\n')
    const env = {
      PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
      HOME: this.folder,
      CONTAINERS_CONF: at('containers.conf'),
      CONTAINERS_STORAGE_CONF: at('storage.conf'),
      CONTAINERS_REGISTRIES_CONF: at('registries.conf'),
    }
    const log = openSync(at('log'), 'a')
    const service = spawn('podman', ['system', 'service', '-t', '0', `unix://${this.socket}`], {
      stdio: ['ignore', log, log],
      env,
    })
    this.daemon = service
    await until('the service', async () => {
      if (service.exitCode !== null) throw new Error(`the service has ended: ${readFileSync(at('log'), 'utf8')}`)
      return (await this.call('GET', '/_ping').catch(() => '')) === 'OK'
    })
  }
}
