// The table says which folder may import which. `type:` allows types only, which are erased before the code runs.
const MAY_IMPORT = {
  schemas: [],
  // The client is loaded by browsers too, so schemas give it their types alone.
  client: ['type:schemas'],
  domain: ['schemas'],
  platform: ['schemas', 'domain'],
  db: ['schemas', 'domain', 'platform/async', 'platform/(events|log)'],
  'node-runtime': ['schemas', 'domain', 'platform'],
  'activities/control': ['schemas', 'domain', 'platform', 'db', 'workflows/contract'],
  'activities/node': ['schemas', 'domain', 'platform', 'node-runtime'],
  // `workflows/contract` is what other folders may import of workflows; it imports nothing of theirs or of activities, so there is no loop.
  'workflows/contract': ['schemas', 'domain'],
  workflows: ['schemas', 'domain', 'platform/events', 'type:activities'],
  api: ['schemas', 'domain', 'platform', 'db', 'workflows/contract'],
  workers: ['schemas', 'domain', 'platform', 'db', 'node-runtime', 'activities', 'workflows/contract'],
  cli: ['schemas', 'client', 'domain', 'platform', 'db', 'embedded/local-database'],
  embedded: [
    'schemas',
    'client',
    'domain',
    'platform',
    'db',
    'node-runtime/environments/(python|npm)-env',
    'workflows/contract',
  ],
}
const OURS =
  '^(schemas|client|domain|platform|db|node-runtime|activities|workflows|api|workers|cli|embedded|test|bench)/'
const anyOf = (folders) => (folders.length ? `^(${folders.join('|')})(/|\\.)` : '^$')

const edges = Object.entries(MAY_IMPORT).flatMap(([from, to]) => {
  const types = to.filter((t) => t.startsWith('type:')).map((t) => t.slice(5))
  const values = to.filter((t) => !t.startsWith('type:'))
  return [
    {
      name: `${from}: allowed folders`,
      severity: 'error',
      from: { path: `^${from}/` },
      to: { path: OURS, pathNot: anyOf([from, ...values, ...types]) },
    },
    types.length && {
      name: `${from}: type only`,
      severity: 'error',
      from: { path: `^${from}/` },
      to: { path: anyOf(types), pathNot: anyOf([from, ...values]), dependencyTypesNot: ['type-only'] },
    },
  ].filter(Boolean)
})

module.exports = {
  forbidden: [
    ...edges,
    { name: 'no cycles', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'nodes hold no database code',
      severity: 'error',
      from: { path: '^(node-runtime|activities/node|workers/node)' },
      to: { path: '^db/', reachable: true },
    },
    {
      name: 'pure: no I/O',
      severity: 'error',
      from: { path: '^(schemas|domain|workflows)/' },
      to: { dependencyTypes: ['core'] },
    },
    {
      name: 'the client loads nothing else',
      severity: 'error',
      from: { path: '^client/' },
      to: { pathNot: '^(client|schemas)/|(^|/)typebox(/|$)' },
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    tsConfig: { fileName: 'tsconfig.json' },
  },
}
