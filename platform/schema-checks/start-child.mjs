// Plain JavaScript, so that the compile cache is enabled before the first module is loaded.
import { enableCompileCache } from 'node:module'

enableCompileCache()
await import('./child.ts')
