// This file is plain JavaScript. Once the stripped code is cached, a thread that starts here doesn't load its own
// TypeScript compiler, which would occupy about 15 MB for the thread's lifetime.
import { enableCompileCache } from 'node:module'

enableCompileCache()
await import('./worker.ts')
