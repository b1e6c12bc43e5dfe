import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { quietPort } from '../../ports.ts'
import { until } from '../runtime/rig.ts'

/** The account `robot` with the password `secret`, as htpasswd writes it with bcrypt. */
const HTPASSWD = 'robot:$2y$05$GYskjTCs3ZLMid1Pht4BXuyx7bs7jTLa/jBkngLCKPQTy1vr3L7/2'

/** A registry of images on loopback, which asks for an account. */
export class Registry {
  readonly host: string
  readonly #program: ChildProcess

  private constructor(host: string, program: ChildProcess) {
    this.host = host
    this.#program = program
  }

  static async start(folder: string): Promise<Registry> {
    const root = join(folder, 'registry')
    mkdirSync(root, { recursive: true })
    const host = `127.0.0.1:${await quietPort()}`
    writeFileSync(join(root, 'htpasswd'), `${HTPASSWD}\n`)
    const config = {
      version: 0.1,
      log: { level: 'error' },
      storage: { filesystem: { rootdirectory: join(root, 'data') } },
      http: { addr: host },
      auth: { htpasswd: { realm: 'test', path: join(root, 'htpasswd') } },
    }
    writeFileSync(join(root, 'config.yml'), JSON.stringify(config))
    const program = spawn('docker-registry', ['serve', join(root, 'config.yml')], { stdio: 'ignore' })
    await until('the registry', async () => {
      if (program.exitCode !== null) throw new Error('the registry has ended')
      return (await fetch(`http://${host}/v2/`).catch(() => undefined))?.status === 401
    })
    return new Registry(host, program)
  }

  async stop(): Promise<void> {
    if (this.#program.exitCode !== null || this.#program.signalCode !== null) return
    const ended = new Promise((resolve) => this.#program.once('exit', resolve))
    this.#program.kill('SIGTERM')
    await ended
  }
}
