// This file is plain JavaScript. Once the stripped code is cached, a thread that starts here does not load a TypeScript
// compiler of its own, which would occupy about 15 MB for the thread's lifetime.
import { enableCompileCache } from 'node:module'

enableCompileCache()
await import('./thread.ts')
