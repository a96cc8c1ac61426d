import type { Isolation } from '../../schemas/nodes/node.ts'
import type { ConfinementMechanisms } from './confinement.ts'
import type { ControlGroups } from './control-groups.ts'

const WATCHED = 'the node ends processes that exceed their limit'
const FILES = {
  landlock: 'Landlock: only granted paths can be opened, and weights are read-only',
  none: 'not enforced: this kernel has no Landlock, so processes can read everything that the node can read',
} as const
const NETWORK = {
  namespace: 'its own network namespace with only a loopback interface',
  landlock: 'not enforced: Landlock blocks outgoing TCP, but without namespaces nothing blocks other traffic',
  none: 'not enforced: this kernel does not let the node create namespaces and has no Landlock for networks',
} as const

/** Describes the isolation of this node's processes. */
export function processIsolation({
  network,
  files,
  mounts,
  privileges,
  calls,
}: ConfinementMechanisms): Isolation {
  const isLinux = process.platform === 'linux'
  const isReadOnly = mounts === 'read_only' ? '; everything else is mounted read-only' : ''
  return {
    memory: {
      enforced: isLinux,
      by: isLinux
        ? `${WATCHED}, backed by RLIMIT_DATA`
        : 'not enforced: the node only watches memory on Linux',
    },
    network: {
      enforced: network === 'namespace',
      by: `${NETWORK[network]}${calls === 'filtered' ? '; no vsock sockets (seccomp)' : ''}`,
    },
    files: { enforced: files === 'landlock', by: `${FILES[files]}${isReadOnly}` },
    privileges: {
      enforced: privileges === 'dropped',
      by:
        privileges === 'dropped'
          ? 'no capabilities, no new privileges, an environment without secrets'
          : 'only an environment without secrets: this machine cannot drop privileges',
    },
  }
}

/**
 * Describes the isolation of tools that run as processes (sandbox.py). If any measure fails, the node runs no tools.
 */
export function toolIsolation(groups: Pick<ControlGroups, 'version' | 'has'> | undefined): Isolation {
  const filtered = 'a system call filter (seccomp), and the node ends processes that exceed their limit'
  const by = (controller: 'memory' | 'cpu') =>
    groups?.has(controller) ? `cgroup v${groups.version}, ${controller} controller; ` : ''
  return {
    memory: { enforced: true, by: `${by('memory')}${filtered}` },
    cpus: { enforced: true, by: `${by('cpu')}CPU affinity, enforced by a system call filter` },
    network: { enforced: true, by: 'its own network namespace, and no sockets of other families' },
    files: { enforced: true, by: 'its own root file system, read-only except for a limited /tmp' },
    privileges: { enforced: true, by: 'no capabilities, no new privileges, its own user' },
  }
}

/** The isolation of containers (container-options.ts), the same on every machine. */
export const CONTAINER_ISOLATION: Isolation = {
  memory: { enforced: true, by: "the container's memory limit" },
  network: { enforced: true, by: 'only a loopback interface' },
  files: { enforced: true, by: 'a read-only root file system, and weights mounted read-only' },
  privileges: { enforced: true, by: 'no capabilities, no new privileges, its own environment' },
}

/** Returns one phrase for each measure that is not enforced. */
export const gapsOf = (isolation: Readonly<Record<string, Isolation | undefined>>): string[] =>
  Object.entries(isolation).flatMap(([driver, measures]) =>
    Object.entries(measures ?? {}).flatMap(([name, { enforced, by }]) =>
      enforced ? [] : [`${name} of ${driver} driver: ${by}`],
    ),
  )
