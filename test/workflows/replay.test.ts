import { Worker } from '@temporalio/worker'
import { readConfig } from '../../platform/config.ts'
import { workflowBundle } from '../../workers/bundle.ts'
import { readHistories } from '../support/assertions/histories.ts'
import { quietRuntime } from '../support/servers/temporal.ts'

describe('recorded histories', () => {
  it('replay on the current workflows', async () => {
    quietRuntime()
    const bundle = await workflowBundle(readConfig().HEARTH_CACHE_DIR)
    for (const { name, history } of await readHistories()) {
      await Worker.runReplayHistory({ workflowBundle: bundle, replayName: name }, history).catch(
        (cause: unknown) => {
          throw new Error(`${name} does not replay`, { cause })
        },
      )
    }
  })
})
