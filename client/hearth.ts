import { Operations } from './operations.ts'
import { account } from './resources/account.ts'
import { actions } from './resources/actions.ts'
import { datasets } from './resources/datasets.ts'
import { endpoints } from './resources/endpoints.ts'
import { hub } from './resources/hub.ts'
import { keys } from './resources/keys.ts'
import { manifest } from './resources/manifest.ts'
import { memory } from './resources/memory.ts'
import { merges } from './resources/merges.ts'
import { modelConfigs } from './resources/model-configs.ts'
import { models } from './resources/models.ts'
import { platform } from './resources/platform.ts'
import { runs } from './resources/runs.ts'
import { tasks } from './resources/tasks.ts'
import { webhooks } from './resources/webhooks.ts'
import { type HearthOptions, Transport } from './transport.ts'

/** Returns a platform client for an API key's account. */
export function hearth(options: HearthOptions) {
  const transport = new Transport(options)
  const on = new Operations(transport)
  return {
    ...account(on, transport),
    actions: actions(on),
    datasets: datasets(on, transport),
    endpoints: endpoints(on),
    hub: hub(on),
    keys: keys(on),
    manifest: manifest(on),
    memory: memory(on),
    merges: merges(on),
    modelConfigs: modelConfigs(on),
    models: models(on),
    /** Options for the `openai` package: `new OpenAI(h.openai)`. */
    openai: { baseURL: `${transport.baseUrl}/v1`, apiKey: options.apiKey },
    platform: platform(on),
    runs: runs(on, transport),
    tasks: tasks(on),
    webhooks: webhooks(on),
  }
}

export type Hearth = ReturnType<typeof hearth>
