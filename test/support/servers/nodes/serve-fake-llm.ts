import { registerHooks } from 'node:module'

// Loaded before a platform's programs (`NODE_OPTIONS=--import`). It adds the fake language model server to the catalog,
// so that whole platforms can serve models whose responses take as long as a test requests.

const REAL = new URL('../../../../platform/catalog.ts', import.meta.url).href
const FAKE = new URL('../../builders/fake-catalog.ts', import.meta.url).href

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context)
    return found.url === REAL && context.parentURL !== FAKE ? { ...found, url: FAKE } : found
  },
})
