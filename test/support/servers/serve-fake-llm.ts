import { registerHooks } from 'node:module'

// Loaded before the mains of a platform (`NODE_OPTIONS=--import`): they read a catalog that has the fake language model
// server in it, so that whole platforms serve models whose answers last as long as a test asks for.

const REAL = new URL('../../../platform/catalog.ts', import.meta.url).href
const FAKE = new URL('../builders/fake-catalog.ts', import.meta.url).href

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context)
    return found.url === REAL && context.parentURL !== FAKE ? { ...found, url: FAKE } : found
  },
})
