#!/usr/bin/env node
// `npx hearth ...`, also on a checkout whose packages are not installed yet.
process.argv.splice(2, 0, 'cli/hearth.ts')
await import('./bootstrap.mjs')
