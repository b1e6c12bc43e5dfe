import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { ROOT } from './module-graph.ts'
import { filesOfPage, filesOfPatch, RECIPES } from './recipes/recipe.ts'

// Whether they are complete is for test/long/recipes.test.ts: this is what a change elsewhere breaks.
describe.each(RECIPES)('the recipe of $heading', (recipe) => {
  it('touches the files that the page names', () => {
    expect(filesOfPatch(recipe)).toEqual(filesOfPage(recipe))
  })

  it('applies to the tree as it is', () => {
    const check = () =>
      execFileSync('git', ['apply', '--check', `test/recipes/${recipe.patch}.patch`], { cwd: ROOT, stdio: 'pipe' })
    expect(check).not.toThrow()
  })
})
