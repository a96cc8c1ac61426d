import { FAMILIES } from '../../api/app.ts'
import type { AnyRoute } from '../../api/http/route.ts'
import { docsRoutes } from '../../api/routes/docs/index.ts'

/** One served route with its full path. */
export interface ServedRoute {
  route: AnyRoute
  path: string
  surface: 'builder' | 'openai' | 'mcp'
}

/** Everything that a gateway serves, features included. */
export const SERVED: readonly ServedRoute[] = [
  ...FAMILIES,
  { prefix: '', errors: 'builder' as const, routes: docsRoutes(FAMILIES) },
].flatMap(({ prefix, errors, routes }) =>
  routes.map((route) => ({ route, path: prefix + route.path, surface: errors })),
)
