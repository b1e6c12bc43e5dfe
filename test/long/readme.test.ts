// @module-tag long
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from '../module-graph.ts'
import { Machine, noMachines, type Running } from './network-machine.ts'

/** Where the pages say something else than a test can do, all of it: what stands there, and what is run. */
const REPLACED: readonly (readonly [printed: string, run: string])[] = [
  // The clone of the test is built.
  ['npm install && npm start', 'npm start'],
]
/** Blocks that are not run, and why. */
const LEFT_OUT: readonly (readonly [begins: string, why: string])[] = [
  ['npm install && npm test', 'runs this very test'],
  ['ufw allow', 'is for the firewall of the reader'],
]
const [HERE, THERE] = ['192.168.1.20', '192.168.1.21']
const PASSWORD = 'Correct-horse-7-battery'

const why = noMachines()

interface Block {
  readonly heading: string
  readonly language: string
  readonly text: string
}

/** The blocks of a page in their order, with the heading that they stand under. */
function blocksOf(page: string): Block[] {
  const parts = readFileSync(join(ROOT, page), 'utf8').split(/^## /m).slice(1)
  return parts.flatMap((part) => {
    const heading = part.split('\n', 1)[0] ?? ''
    const found = [...part.matchAll(/^```(\w+)\n(.*?)^```$/gms)]
    return found.map(([, language = '', text = '']) => ({ heading, language, text }))
  })
}

const readme = blocksOf('README.md')
const players = blocksOf('docs/players.md')

/** The one block under a heading that begins so, as it is run. */
function printed(blocks: readonly Block[], heading: string, begins: string): string {
  const found = blocks.filter((block) => block.heading === heading && block.text.startsWith(begins))
  expect(found, `one block "${begins}" under "${heading}"`).toHaveLength(1)
  return REPLACED.reduce((text, [from, to]) => text.replace(from, to), found[0]?.text ?? '')
}

async function ok(machine: Machine, lines: string, input?: string): Promise<string> {
  const { code, output } = await machine.run(lines, input)
  expect(code, `${lines}\n${output}`).toBe(0)
  return output
}

/** Whether a game answers at an address, as a player's machine sees it. */
const joins = (machine: Machine, address: string, port: number) =>
  machine.run(`timeout 5 bash -c 'exec 3<>/dev/tcp/${address}/${port}'`).then(({ code }) => code === 0)

it('every block of the README and of docs/players.md is run below, or is left out for a reason', () => {
  const source = readFileSync(join(import.meta.dirname, 'readme.test.ts'), 'utf8')
  const begins = [...source.matchAll(/printed\((?:readme|players), '([^']+)', '([^']+)'\)/g)]
  for (const { heading, language, text } of [...readme, ...players]) {
    if (language !== 'sh' && language !== 'yaml') continue
    const run = begins.some(([, under, start = '']) => under === heading && text.startsWith(start))
    const out = LEFT_OUT.some(([start]) => text.startsWith(start))
    expect(run !== out, `${heading}: ${text.split('\n', 1)[0]}`).toBe(true)
  }
})

describe.skipIf(why !== undefined)(
  `the pages as they are printed${why === undefined ? '' : ` (skipped: ${why})`}`,
  () => {
    describe('on one machine', { timeout: 180_000 }, () => {
      let home: Machine
      let friend: Machine
      let up: Running

      beforeAll(async () => {
        ;[home, friend] = [await Machine.boot({}), await Machine.boot({})]
        Machine.connect(home, friend, [HERE, THERE])
      }, 60_000)
      afterAll(async () => {
        await home?.shutDown()
        await friend?.shutDown()
      })

      it('a panel is up after one line', async () => {
        up = home.start(printed(readme, 'Start', 'npm install'))
        await up.says('Ctrl-C stops daemon and node')
        expect(up.output()).toMatch(/demo +running +127\.0\.0\.1:25600/)
      })

      it('curl reads the servers over the port and over the socket', async () => {
        const output = await ok(home, printed(readme, 'Start', 'curl -H'))
        expect(output.match(/"success":true/g), output).toHaveLength(2)
        expect(output.match(/"name":"demo"/g)).toHaveLength(2)
      })

      it('friends join by what docs/players.md says', async () => {
        expect(await joins(friend, HERE, 25_600)).toBe(false)
        const everywhere = await home.run('./panel servers stop demo --wait && ./panel servers edit demo --ip 0.0.0.0')
        expect(everywhere.output).toContain('--ip: must be one address of the node: 127.0.0.1')
        expect(everywhere.output).toContain(HERE)
        await ok(home, './panel servers start demo --wait')
        const inClone = (lines: string) => lines.replace(/^panel /gm, './panel ')
        const output = await ok(home, inClone(printed(players, 'The address', 'panel nodes view local')))
        expect(output).toContain(`${HERE}:25600`)
        expect(await joins(friend, HERE, 25_600)).toBe(true)
        await ok(home, inClone(printed(players, 'The address', 'panel nodes edit local')))
        await ok(
          home,
          './panel servers stop demo --wait; ./panel servers edit demo --ip 127.0.0.1; ./panel servers start demo --wait',
        )
      })

      it('the first five minutes are as printed, and leave nothing running', async () => {
        const lines = printed(readme, 'The first five minutes', './panel servers list')
        // A screen wants a terminal, and a person who leaves it.
        const [before = '', after = ''] = lines.split(/^\.\/panel console attach demo.*\n/m)
        await ok(home, before)
        const screen = home.start('./panel console attach demo', { terminal: true })
        await screen.says('LIVE')
        screen.type('\u001D')
        expect((await screen.ended).code).toBe(0)
        const output = await ok(home, after)
        for (const name of ['Demo game', 'OpenTTD', 'Freeciv', 'Luanti', 'Teeworlds', 'lobby'])
          expect(output).toContain(name)
        expect((await up.ended).code).toBe(0)
      })
    })

    describe('in production', { timeout: 180_000 }, () => {
      let panel: Machine
      let node: Machine
      let daemon: Running
      let agent: Running

      beforeAll(async () => {
        const hosts = { 'panel.example.org': HERE, 'games.example.org': THERE }
        ;[panel, node] = [await Machine.boot(hosts), await Machine.boot(hosts)]
        Machine.connect(panel, node, [HERE, THERE])
      }, 60_000)
      afterAll(async () => {
        await panel?.shutDown()
        await node?.shutDown()
      })

      const check = () =>
        printed(readme, 'A daemon in production', 'export PANEL_CREDENTIAL_KEY_FILE').replace(
          /^setpriv.*panel\.yaml\n/m,
          '',
        )

      it('user, folders, key and configuration are made, and --check tells of the certificate that is missing', async () => {
        await ok(panel, printed(readme, 'A daemon in production', 'useradd'))
        await panel.run('cat > /etc/panel/panel.yaml', printed(readme, 'A daemon in production', 'http:'))
        const { code, output } = await panel.run(check())
        expect(code).toBe(2)
        expect(output).toMatch(
          /^The configuration is not valid:\n {2}http\.tlsCert: ENOENT.*\n {2}http\.tlsKey: ENOENT.*\n$/,
        )
      })

      it('a CA of its own signs the certificate, and the daemon runs as its user', async () => {
        await ok(panel, printed(readme, 'A daemon in production', 'openssl req'))
        expect(await ok(panel, check())).toContain('https://0.0.0.0:7420')
        const all = printed(readme, 'A daemon in production', 'export PANEL_CREDENTIAL_KEY_FILE')
        daemon = panel.start(all, { terminal: true })
        await daemon.says('setup token')
        await daemon.says('Complete it with: panel setup --url https://panel.example.org:7420')
        expect(await ok(panel, 'ps -o user= -C node || true')).toContain('panel')
      })

      it('the first administrator is told what a password needs, and asked again for a weak one', async () => {
        const token = /works once\):\s+(\S+)/.exec(daemon.output())?.[1] ?? ''
        const setup = panel.start(printed(readme, 'A daemon in production', './panel setup'), { terminal: true })
        await setup.says('A password has 12 to 128 characters')
        setup.type('weak')
        await setup.says('must have at least 12 characters')
        setup.type(`\u0015${PASSWORD}`)
        await setup.says('Setup token')
        setup.type('wrong')
        await setup.says('The setup token is missing or wrong')
        setup.type(token)
        const { code, output } = await setup.ended
        expect(code, output).toBe(0)
        expect(output).not.toContain('body.')
      })

      it('a node joins through a private CA, and a game on it is reached', async () => {
        const made = await ok(panel, printed(readme, 'A node of its own', './panel locations create'))
        expect(made).toContain('panel agent enroll --url https://panel.example.org:7420 --token-stdin')
        for (const name of ['token', '/etc/panel/ca.crt']) {
          const content = await ok(panel, `cat ${name}`)
          await ok(node, `cat > ${name.split('/').at(-1)}`, content)
        }
        const [enroll = '', run = ''] = printed(readme, 'A node of its own', './panel agent enroll').split(
          /^(?=\.\/panel agent run)/m,
        )
        await ok(node, enroll)
        agent = node.start(run, { terminal: true })
        const online = './panel nodes view rack-2 -o json --jq .isOnline | grep -q true'
        await ok(
          panel,
          `for i in $(seq 60); do ${online} && exit 0; sleep 0.5; done; ./panel nodes view rack-2; exit 1`,
        )
        const output = await ok(
          panel,
          "./panel servers create --name far --template 'Demo game' --node rack-2 --memory 96 --cpu 0.5 --disk 256 --port 25600 --start --wait",
        )
        expect(output).toContain('running')
        expect(await joins(panel, THERE, 25_600)).toBe(true)
        await ok(panel, './panel servers stop far --wait && ./panel servers delete far --confirm far --wait')
      })

      it('both stop at Ctrl-C', async () => {
        for (const running of [agent, daemon]) running.type('\u0003')
        await agent.ended
        expect((await daemon.ended).output).toContain('daemon stopped; games run on')
      })
    })
  },
)
