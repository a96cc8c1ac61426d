// Plain JavaScript, so that a thread needs no TypeScript compiler of its own once the stripped code is cached: it would
// hold 15 MB for as long as it lives (measured).
import { enableCompileCache } from 'node:module'

enableCompileCache()
await import('./worker.ts')
