/** Values that the chart must reject, as arguments of Helm, and what the error must say. */
export const REFUSED: readonly { args: string[]; expected: RegExp }[] = [
  { args: ['--set', 'gatway.replicas=2'], expected: /additional properties 'gatway' not allowed/ },
  { args: ['--set', 'gateway.replica=2'], expected: /at '\/gateway': additional properties 'replica'/ },
  { args: ['--set', 'gateway.replicas=two'], expected: /at '\/gateway\/replicas': got string, want integer/ },
  { args: ['--set', 'config.HEARTH_RATE_LIMITS=1'], expected: /at '\/config'[^]*HEARTH_RATE_LIMITS/ },
  {
    args: ['--set', 'config.HEARTH_RATE_LIMIT=1'],
    expected: /at '\/config\/HEARTH_RATE_LIMIT': got number, want string/,
  },
  { args: ['--set-string', 'config.HEARTH_PORT=1'], expected: /at '\/config'[^]*HEARTH_PORT/ },
  {
    args: ['--set-string', 'config.HEARTH_OPERATIONS_KEY=x'],
    expected: /at '\/config'[^]*HEARTH_OPERATIONS_KEY/,
  },
  { args: ['--set', 'nodePools.CPU.replicas=1'], expected: /at '\/nodePools'[^]*CPU/ },
  {
    args: ['--set', 'nodePools.cpu.gpus=1'],
    expected: /at '\/nodePools\/cpu': additional properties 'gpus'/,
  },
  { args: ['--set', 'nodePools.cpu.cache.size=big'], expected: /at '\/nodePools\/cpu\/cache\/size'/ },
  {
    args: ['--set', 'worker.podDisruptionBudget.minAvailable=1'],
    expected: /at '\/worker\/podDisruptionBudget'/,
  },
  { args: ['--set', 'publicUrl=hearth.example.com'], expected: /at '\/publicUrl'/ },
  { args: ['--set', 'ingress.enabled=true'], expected: /ingress\.host is missing/ },
  { args: ['--set', 'existingSecret='], expected: /DATABASE_URL is missing: name a Secret/ },
  { args: ['--set', 'temporal.address='], expected: /temporal\.address is missing/ },
  { args: ['--set', 'temporal.bundled=true'], expected: /temporal\.bundled requires postgresql\.bundled/ },
  {
    args: [
      '--set',
      'secretValues.DATABASE_URL=x,secretRefs.DATABASE_URL.name=a,secretRefs.DATABASE_URL.key=b',
    ],
    expected: /secretRefs\.DATABASE_URL and secretValues\.DATABASE_URL exclude each other/,
  },
]
