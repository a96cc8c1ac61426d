#!/usr/bin/env node
// `npx hearth ...`, even in a checkout whose packages aren't installed yet.
import { fileURLToPath } from 'node:url'

process.argv.splice(2, 0, fileURLToPath(new URL('../cli/hearth.ts', import.meta.url)))
await import('./bootstrap.mjs')
