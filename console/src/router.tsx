import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
import { Failure, Loading } from './parts/page.tsx'
import { Shell } from './shell.tsx'

const root = createRootRoute({ component: Shell })
const at = <const P extends string, M extends object>(
  path: P,
  load: () => Promise<M>,
  name: keyof M & string,
) => createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load, name as never) })

const tree = root.addChildren([
  at('/', () => import('./pages/overview.tsx'), 'Overview'),
  at('/runs', () => import('./pages/runs.tsx'), 'Runs'),
  createRoute({
    getParentRoute: () => root,
    path: '/compare',
    validateSearch: (search: Record<string, unknown>): { runs?: string } => ({
      runs: typeof search['runs'] === 'string' ? search['runs'] : '',
    }),
    component: lazyRouteComponent(() => import('./pages/compare.tsx'), 'Compare'),
  }),
  at('/runs/$runId', () => import('./pages/run.tsx'), 'RunPage'),
  at('/models', () => import('./pages/models.tsx'), 'Models'),
  at('/models/$modelId', () => import('./pages/model.tsx'), 'ModelPage'),
  at('/endpoints', () => import('./pages/endpoints.tsx'), 'Endpoints'),
  at('/endpoints/$endpointId', () => import('./pages/endpoint.tsx'), 'EndpointPage'),
  at('/datasets', () => import('./pages/datasets.tsx'), 'Datasets'),
  at('/datasets/$datasetId', () => import('./pages/dataset.tsx'), 'DatasetPage'),
  at('/tasks', () => import('./pages/tasks.tsx'), 'Tasks'),
  at('/tasks/$taskId', () => import('./pages/tasks.tsx'), 'TaskPage'),
  at('/webhooks', () => import('./pages/webhooks.tsx'), 'Webhooks'),
  at('/webhooks/$deliveryId', () => import('./pages/delivery.tsx'), 'DeliveryPage'),
  at('/agents', () => import('./pages/agents.tsx'), 'Agents'),
  at('/account', () => import('./pages/account.tsx'), 'AccountPage'),
  at('/nodes', () => import('./pages/operators/nodes.tsx'), 'Nodes'),
  at('/nodes/$nodeId', () => import('./pages/operators/node.tsx'), 'NodePage'),
  at('/queues', () => import('./pages/operators/queues.tsx'), 'Queues'),
  at('/accounts', () => import('./pages/operators/accounts.tsx'), 'Accounts'),
  at('/kill-switch', () => import('./pages/operators/kill-switch.tsx'), 'KillSwitchPage'),
  at('/audit', () => import('./pages/operators/audit.tsx'), 'Audit'),
])

export const router = createRouter({
  routeTree: tree,
  basepath: '/console',
  defaultPreload: 'intent',
  defaultPendingComponent: () => <Loading error={null} what="this page" />,
  defaultErrorComponent: ({ error }) => (
    <Failure error={new Error(`${String(error)}. Load it again.`)} what="page" />
  ),
  defaultNotFoundComponent: () => <p>There is no such page. The pages are listed on the left.</p>,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
