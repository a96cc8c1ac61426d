import { readConfig } from '../platform/config.ts'
import { buildConsole, checkConsole } from '../platform/console-build.ts'

/** Builds the console or checks its types. Both first install its packages into the cache. */
const actions = { build: buildConsole, check: checkConsole }
const name = process.argv[2]
if (name !== 'build' && name !== 'check') throw new Error('console.ts accepts build or check')
try {
  await actions[name](readConfig().HEARTH_CACHE_DIR, (line) => console.error(`hearth: ${line}`))
} catch (err) {
  const { stdout = '', stderr = '', message } = err as Error & { stdout?: string; stderr?: string }
  console.error(`${stdout}${stderr}` || message)
  process.exitCode = 1
}
