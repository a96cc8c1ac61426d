/** A command that the test of all pages doesn't run. */
interface Exception {
  page: string
  /** How the command begins; an empty string means the whole page. */
  command: string
  reason: string
}

const FOREVER = 'runs until Ctrl-C'
const REGISTRY = 'downloads from a public registry'

export const EXCEPTIONS: readonly Exception[] = [
  { page: 'README.md', command: 'npm run demo', reason: `${FOREVER}, and starts a second platform` },
  { page: 'README.md', command: 'npm start', reason: `${FOREVER}; starts the platform of this test` },
  {
    page: 'CONTRIBUTING.md',
    command: "mocha 'test/domain/**/*.test.ts'",
    reason: 'npm test runs the same files',
  },
  { page: 'CONTRIBUTING.md', command: 'HEARTH_NODE_TOKEN=', reason: FOREVER },
  { page: 'CONTRIBUTING.md', command: 'npm run python:', reason: 'npm test runs these checks' },
  { page: 'docs/client.md', command: 'pip install', reason: REGISTRY },
  {
    page: 'docs/client.md',
    command: 'openapi-python-client generate',
    reason: 'test/contract/python-client.test.ts runs it in its own Python environment',
  },
  { page: 'docs/cohorts.md', command: '', reason: 'test/e2e/cohorts-page.test.ts runs the page' },
  { page: 'docs/cohorts-evaluator.md', command: '', reason: 'test/e2e/cohorts-page.test.ts runs the page' },
  {
    page: 'docs/deployment.md',
    command: 'node scripts/compose-env.mjs',
    reason: 'writes secrets into the checkout',
  },
  { page: 'docs/deployment.md', command: 'docker compose ', reason: 'needs Docker' },
  { page: 'docs/gpu-nodes.md', command: 'HEARTH_GATEWAY_URL=', reason: `${FOREVER}, and needs a GPU` },
  { page: 'docs/ide-recipes.md', command: 'claude mcp add', reason: 'needs Claude Code' },
  { page: 'docs/memory.md', command: 'HEARTH_MEMORY=1 npm start', reason: FOREVER },
  { page: 'docs/operations/backup.md', command: 'HEARTH_DATA_DIR=restored npm start', reason: FOREVER },
  { page: 'docs/operations/kubernetes.md', command: '', reason: 'needs a Kubernetes cluster' },
  { page: 'docs/performance.md', command: 'npm run bench:gateway', reason: 'runs for minutes' },
  {
    page: 'docs/performance.md',
    command: 'npm run bench:all -- ',
    reason: 'test/bench/needs.test.ts runs it',
  },
  { page: 'docs/python.md', command: 'pip install', reason: REGISTRY },
  { page: 'docs/webhooks.md', command: 'npx hearth listen', reason: FOREVER },
  { page: 'docs/webhooks.md', command: 'HEARTH_FEATURES=webhooks ', reason: FOREVER },
]

export const exceptionFor = (page: string, text: string): Exception | undefined =>
  EXCEPTIONS.find((exception) => exception.page === page && text.startsWith(exception.command))
