import { readConfig } from '../platform/config.ts'
import { explain, START_HELP, startOptions } from './options.ts'
import { stopRequested } from './stop-requested.ts'
import { startPlatform } from './supervisor.ts'
import type { ReadyFile } from './supervisor.ts'

/** `npm start`: the platform runs until it is stopped. */
async function main(): Promise<number> {
  const config = readConfig()
  const options = startOptions(process.argv.slice(2), config)
  if (!options) {
    console.log(START_HELP)
    return 0
  }
  const stop = stopRequested()
  const started = Date.now()
  try {
    const platform = await startPlatform(options, config, { signal: stop.signal })
    announce(platform.ready, {
      logs: platform.logs,
      hasMemory: config.HEARTH_MEMORY,
      ms: Date.now() - started,
    })
    await stop.requested
    await platform.stop()
    return 0
  } catch (err) {
    if (stop.signal.aborted) return 0
    throw err
  }
}

function announce(
  ready: ReadyFile,
  { logs, hasMemory, ms }: { logs: string; hasMemory: boolean; ms: number },
): void {
  const rows = [
    ['API', `${ready.base_url}/api/builder/v1`],
    ['Console', `${ready.base_url}/console/#key=${ready.api_key}`],
    ['Docs', `${ready.base_url}/docs`],
    ['Temporal UI', ready.temporal_ui_url ?? `(server at ${ready.temporal_address})`],
    ['Account', ready.account_id],
    ['API key', ready.api_key],
    ['Operations key', ready.operations_key],
    ['Memory', hasMemory ? 'on: npx hearth memory enable' : 'off (HEARTH_MEMORY=1 switches it on)'],
    ['Logs', logs],
  ]
  console.log(`\nHearth is up (${(ms / 1000).toFixed(1)} s). Ctrl-C stops it.\n`)
  for (const [label = '', value] of rows) console.log(`  ${label.padEnd(15)} ${value}`)
  console.log('')
}

main().then(
  (code) => process.exit(code),
  (err: unknown) => process.exit(explain(err)),
)
