import type { RequestContext } from '../request-context.ts'

/** A Koa middleware that uses only `ctx.state`, so `hot-path.ts` can run it without Koa. */
export type Middleware = (ctx: { readonly state: RequestContext }, next: () => Promise<void>) => Promise<void>
