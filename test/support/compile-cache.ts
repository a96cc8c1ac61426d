import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

// Half of what a start costs is stripping types and compiling, in this process and in each one that a test starts.
const folder = join(import.meta.dirname, '..', '..', 'node_modules', '.cache', 'compile')
process.env['NODE_COMPILE_CACHE'] ??= folder
enableCompileCache(process.env['NODE_COMPILE_CACHE'])
