// This file is plain JavaScript, so that the compile cache is on before the first module is loaded.
import { enableCompileCache } from 'node:module'

enableCompileCache()
await import('./child.ts')
