import { writeFileSync } from 'node:fs'
import { it } from 'vitest'
import { readSource, sourceFiles } from '../module-graph.ts'
import { patternsIn } from '../source-patterns.ts'
import { REGISTRY } from './pattern-registry.ts'
it('x', () => {
  const out: string[] = []
  for (const file of [...sourceFiles('bin'), ...sourceFiles('src')]) {
    const found = patternsIn(file, readSource(file))
    const known = REGISTRY[file]
    const texts = found.filter((f) => f.kind !== 'made' && f.kind !== 're2').map((f) => f.kind === 'literal' ? f.text : f.text.replace(/\s+/g, f.kind === 'format' ? '' : ' '))
    if (JSON.stringify([...texts].sort()) !== JSON.stringify([...(known?.patterns ?? [])].sort()) || found.some((f) => f.kind === 'made' || f.kind === 're2') !== (known?.made !== undefined)) out.push(JSON.stringify({ file, texts, kinds: found.map((f) => f.kind) }))
  }
  writeFileSync('/tmp/stores-patterns', out.join('\n'))
})
