// Plain JavaScript, so that the cache of compiled code is on before the first module is loaded.
import { enableCompileCache } from 'node:module'

enableCompileCache()
await import('./child.ts')
