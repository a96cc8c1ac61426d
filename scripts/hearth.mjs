#!/usr/bin/env node
// `npx hearth ...`, also on a checkout whose packages are not installed yet.
import { fileURLToPath } from 'node:url'

process.argv.splice(2, 0, fileURLToPath(new URL('../cli/hearth.ts', import.meta.url)))
await import('./bootstrap.mjs')
