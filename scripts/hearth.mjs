#!/usr/bin/env node
// `npx hearth ...`: the same as `npm run hearth -- ...`.
process.argv.splice(2, 0, 'hearth')
await import('./bootstrap.mjs')
