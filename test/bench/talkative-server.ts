import type { BenchPanel } from './bench-panel.ts'

/** A game that prints so many lines of some 60 bytes per second, evenly. */
export async function talkativeServer(panel: BenchPanel, linesPerSecond: number): Promise<string> {
  const game = `let n = 0
const began = performance.now()
console.log('ready')
setInterval(() => {
  const due = ((performance.now() - began) / 1000) * ${linesPerSecond}
  let text = ''
  while (n < due) text += 'line ' + ++n + ' [Server thread/INFO]: something happened in the world\\n'
  process.stdout.write(text)
}, 5)`
  const templateId = await panel.makeTemplate({
    name: 'Talker',
    startup: 'exec "{{PANEL_NODE}}" game.mjs',
    startupDetection: { done: [{ kind: 'contains', value: 'ready' }], stripAnsi: true },
    installScript: `cat > "\${MNT_SERVER:-.}/game.mjs" <<'END'\n${game}\nEND\n`,
  })
  const serverId = await panel.makeServer({ name: 'talker', templateId, primaryPort: 25_565 })
  await panel.running(serverId)
  return serverId
}
