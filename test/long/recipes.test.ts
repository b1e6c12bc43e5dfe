// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Clone, filesOfPatch, RECIPES } from '../recipes/recipe.ts'

let clone: Clone
beforeAll(() => {
  clone = new Clone()
})
afterAll(() => clone.remove())

describe.each(RECIPES)('$heading', (recipe) => {
  it('is complete with all of its files', () => {
    clone.apply(recipe)
    expect(clone.failure(recipe)).toBeUndefined()
  })

  it.each(filesOfPatch(recipe).filter((file) => !recipe.slow?.includes(file)))('is not complete without %s', (file) => {
    clone.apply(recipe, file)
    expect(clone.failure(recipe)).toBeDefined()
  })
})
