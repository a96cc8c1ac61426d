import { readConfig, SETTINGS } from '../../platform/config.ts'

interface EnvVariable {
  name: string
  value?: string
  valueFrom?: { secretKeyRef?: { name: string }; fieldRef?: object }
}

interface Container {
  name: string
  env?: EnvVariable[]
  securityContext?: Record<string, unknown>
  resources?: { requests?: object; limits?: object }
  volumeMounts?: { name: string; mountPath: string }[]
}

interface PodSpec {
  automountServiceAccountToken?: boolean
  enableServiceLinks?: boolean
  securityContext?: { runAsNonRoot?: boolean; seccompProfile?: { type?: string } }
  initContainers?: Container[]
  containers: Container[]
  volumes?: { name: string }[]
}

/** An object that the chart renders. */
export interface KubernetesObject {
  kind: string
  metadata: { name: string; labels?: Record<string, string> }
  spec?: { template?: { spec: PodSpec } } & Partial<PodSpec>
}

/** The settings without which a process does not start or cannot do its work. */
export const REQUIRED: Record<string, readonly (keyof typeof SETTINGS)[]> = {
  gateway: [
    'DATABASE_URL',
    'TEMPORAL_ADDRESS',
    'S3_BUCKET',
    'S3_ACCESS_KEY_ID',
    'S3_SECRET_ACCESS_KEY',
    'HEARTH_ENCRYPTION_KEYS',
    'HEARTH_OPERATIONS_KEY',
    'HEARTH_HOST',
    'HEARTH_BASE_URL',
    'HEARTH_GATE_URL',
  ],
  worker: [
    'DATABASE_URL',
    'TEMPORAL_ADDRESS',
    'S3_BUCKET',
    'S3_ACCESS_KEY_ID',
    'S3_SECRET_ACCESS_KEY',
    'HEARTH_ENCRYPTION_KEYS',
  ],
  gate: ['DATABASE_URL', 'TEMPORAL_ADDRESS', 'HEARTH_ENCRYPTION_KEYS', 'HEARTH_GATE_HOST'],
  node: ['HEARTH_GATEWAY_URL', 'HEARTH_NODE_NAME', 'HEARTH_NODE_DIR', 'HEARTH_CACHE_DIR'],
  setup: ['DATABASE_URL'],
}
/** The settings that nodes must not know (docs/security.md). */
const SECRETS_OF_OTHERS = /^(?:DATABASE_URL|TEMPORAL_|S3_|POSTGRES_|HEARTH_(?:ENCRYPTION|OPERATIONS))/
/** Text for settings that come from a Secret, in a form that their kind accepts. */
const EXAMPLES: Partial<Record<string, string>> = {
  DATABASE_URL: 'postgres://hearth:example@postgres:5432/hearth',
  HEARTH_ENCRYPTION_KEYS: Buffer.alloc(32).toString('base64'),
}

/** Returns what is wrong with the rendered objects, one sentence per fault. */
export function faultsOf(objects: readonly KubernetesObject[]): string[] {
  return objects.flatMap((object) => {
    const name = `${object.kind}/${object.metadata.name}`
    const spec = object.kind === 'Pod' ? (object.spec as PodSpec) : object.spec?.template?.spec
    const faults = [...(spec ? podFaults(spec) : []), ...envFaults(object, spec)]
    return faults.map((fault) => `${name}: ${fault}`)
  })
}

function podFaults(spec: PodSpec): string[] {
  const faults: string[] = []
  if (spec.automountServiceAccountToken !== false) faults.push('the pod gets a token of the Kubernetes API')
  if (spec.enableServiceLinks !== false) faults.push('enableServiceLinks must be false')
  if (spec.securityContext?.runAsNonRoot !== true) faults.push('runAsNonRoot must be true')
  const volumes = new Set(spec.volumes?.map(({ name }) => name))
  for (const { name, securityContext, resources } of [...(spec.initContainers ?? []), ...spec.containers]) {
    if (securityContext?.['readOnlyRootFilesystem'] !== true) faults.push(`${name}: its root can be written`)
    if (securityContext?.['allowPrivilegeEscalation'] !== false) faults.push(`${name}: may gain privileges`)
    if (JSON.stringify(securityContext?.['capabilities']) !== '{"drop":["ALL"]}')
      faults.push(`${name}: has capabilities`)
    if (!resources) faults.push(`${name}: has no resources`)
  }
  for (const { volumeMounts = [] } of spec.containers)
    for (const { name } of volumeMounts)
      if (!volumes.has(name) && !CLAIMS.has(name)) faults.push(`there is no volume ${name}`)
  return faults
}

/** Volumes of StatefulSets, which are not in the pod's own list. */
const CLAIMS = new Set(['data', 'objects', 'sidecar'])

/** Checks the settings of a process of Hearth as the process itself would. */
function envFaults({ metadata }: KubernetesObject, spec: PodSpec | undefined): string[] {
  const component = metadata.labels?.['app.kubernetes.io/component'] ?? ''
  const required = REQUIRED[component]
  if (!spec || !required) return []
  const [container] = spec.containers
  const variables = container?.env ?? []
  const faults = required
    .filter((setting) => !variables.some(({ name }) => name === setting))
    .map((setting) => `${setting} is not set`)
  const names = variables.map(({ name }) => name)
  for (const name of new Set(names)) {
    if (names.filter((each) => each === name).length > 1) faults.push(`${name} is set twice`)
    if (/^(?:HEARTH|S3|TEMPORAL)_|^DATABASE_URL$/.test(name) && !(name in SETTINGS))
      faults.push(`${name} is not a setting`)
    if (component === 'node' && SECRETS_OF_OTHERS.test(name)) faults.push(`nodes must not get ${name}`)
  }
  const env = Object.fromEntries(
    variables.map(({ name, value }) => [
      name,
      value?.replace('$(POD_IP)', '10.0.0.1') ?? EXAMPLES[name] ?? 'example',
    ]),
  )
  try {
    readConfig(env)
  } catch (err) {
    faults.push((err as Error).message)
  }
  return faults
}
