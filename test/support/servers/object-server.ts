import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createApp } from '../../../api/app.ts'
import { getObject } from '../../../api/routes/objects/get-object.ts'
import { putObject } from '../../../api/routes/objects/put-object.ts'
import type { Services } from '../../../api/services.ts'
import { readConfig } from '../../../platform/config.ts'
import { createLogger } from '../../../platform/log.ts'
import { NO_METRICS } from '../../../platform/metrics/metrics.ts'
import type { ObjectStore } from '../../../platform/object-store/store.ts'

/** Serves only the signed URLs of a local store, through the real middlewares. */
export async function serveObjects(store: ObjectStore): Promise<AsyncDisposable & { url: string }> {
  // These routes need no other services, because they have no caller and use no database.
  const services = {
    config: readConfig({}),
    log: createLogger('test', 'silent'),
    metrics: NO_METRICS,
    objects: store,
  } as unknown as Services
  const families = [{ name: 'root', prefix: '', errors: 'builder', routes: [getObject, putObject] }] as const
  const server = createServer(createApp(services, { families, validateResponses: true }))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
