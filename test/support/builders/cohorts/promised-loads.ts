import { setTimeout as sleep } from 'node:timers/promises'
import type { ChatApi } from '../../servers/chat-api.ts'

/** Loads every enqueued model on the node, as the workflow `modelLoad` does, for tests without Temporal. */
export function loadPromised(chat: ChatApi): AsyncDisposable & { loads: string[] } {
  const loads: string[] = []
  let running = true
  const work = async () => {
    while (running) {
      const rows = await chat.api.database.db
        .deleteFrom('workflow_start')
        .where('workflow', '=', 'modelLoad')
        .returning('args')
        .execute()
      for (const { args } of rows) {
        const [{ modelKey }] = args as [{ modelKey: string }]
        loads.push(modelKey)
        void chat.node.parts.models.load(modelKey).catch(() => {})
      }
      await sleep(10)
    }
  }
  const done = work()
  return {
    loads,
    async [Symbol.asyncDispose]() {
      running = false
      await done
    },
  }
}
