import type { IncomingMessage, ServerResponse } from 'node:http'
import Koa from 'koa'
import { CHAT_PATH } from '../domain/chat/chat.ts'
import type { Family } from './http/family.ts'
import { Kernel } from './http/mount.ts'
import type { MountOptions } from './http/operation.ts'
import { builder } from './routes/builder/family.ts'
import { docsRoutes } from './routes/docs/index.ts'
import { openai } from './routes/openai/family.ts'
import { orchestrator, root } from './routes/orchestrator/family.ts'
import type { Services } from './services.ts'

/** Everything that is served, in the order of the description. */
export const FAMILIES: readonly Family[] = [builder, openai, orchestrator, root]

export interface AppOptions extends MountOptions {
  /** Tests of the kernel bring their own routes. */
  families?: readonly Family[]
}

/** The whole HTTP surface as one request listener for `http.createServer`. */
export function createApp(
  services: Services,
  { families = FAMILIES, ...options }: AppOptions = {},
): (req: IncomingMessage, res: ServerResponse) => void {
  const docs: Family = { name: 'root', prefix: '', errors: 'builder', routes: docsRoutes(families) }
  const kernel = new Kernel([...families, docs], services, options)
  const app = new Koa()
  // Koa reports only what the kernel cannot answer any more: connections that broke.
  app.on('error', (err) => services.log.debug({ err }, 'connection lost'))
  app.use((ctx) => {
    // The kernel writes its answers itself, headers and all.
    ctx.respond = false
    kernel.handle(ctx.req, ctx.res)
  })
  const listen = app.callback()
  // Chats are many and short of time: they go without Koa's context, of which the kernel uses nothing.
  return (req, res) => {
    if (req.url === CHAT_PATH) kernel.handle(req, res)
    else void listen(req, res)
  }
}
