// Plain JavaScript on purpose: with the stripped code in the compile cache, a thread that starts here never loads its
// own TypeScript compiler, which would take about 15 MB for the thread's lifetime.
import { enableCompileCache } from 'node:module'

enableCompileCache()
await import('./thread.ts')
