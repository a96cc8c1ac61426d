import type { Isolation } from '../../schemas/node.ts'
import type { Held } from './confinement.ts'
import type { ControlGroups } from './control-groups.ts'

const WATCHED = 'the node ends what holds more than its limit'
const FILES = {
  landlock: 'Landlock: only what was given can be opened, and weights cannot be written',
  none: 'not enforced: this kernel has no Landlock, so all that the node can read is open to it',
} as const
const NETWORK = {
  namespace: 'a network namespace of its own, with nothing in it but loopback',
  landlock: 'not enforced: outgoing TCP is refused by Landlock, other traffic is not, for want of namespaces',
  none: 'not enforced: this kernel lets the node make no namespaces and has no Landlock for networks',
} as const

/** Describes the isolation of this node's processes. */
export function processIsolation({ network, files, mounts, privileges, calls }: Held): Isolation {
  const isLinux = process.platform === 'linux'
  const isReadOnly = mounts === 'read_only' ? '; everything else is mounted read-only' : ''
  return {
    memory: {
      enforced: isLinux,
      by: isLinux ? `${WATCHED}, and RLIMIT_DATA behind it` : 'not enforced: memory is watched on Linux only',
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
          : 'only an environment without secrets: privileges cannot be dropped here',
    },
  }
}

/** Describes the isolation of tools that run as processes (sandbox.py). A node runs none where a step of that fails. */
export function toolIsolation(groups: Pick<ControlGroups, 'version' | 'has'> | undefined): Isolation {
  const filtered = 'a filter of system calls (seccomp), and the node ends what holds more than its limit'
  const by = (controller: 'memory' | 'cpu') =>
    groups?.has(controller) ? `cgroup v${groups.version}, ${controller} controller; ` : ''
  return {
    memory: { enforced: true, by: `${by('memory')}${filtered}` },
    cpus: { enforced: true, by: `${by('cpu')}affinity that a filter of system calls holds` },
    network: { enforced: true, by: 'a network namespace of its own, and no sockets of other families' },
    files: { enforced: true, by: 'a root of its own, read-only but for a limited /tmp' },
    privileges: { enforced: true, by: 'no capabilities, no new privileges, a user of its own' },
  }
}

/** The isolation of containers (container-options.ts), the same on every machine. */
export const CONTAINER_ISOLATION: Isolation = {
  memory: { enforced: true, by: 'the memory limit of the container' },
  network: { enforced: true, by: 'no network but loopback' },
  files: { enforced: true, by: 'a read-only root, and weights mounted read-only' },
  privileges: { enforced: true, by: 'no capabilities, no new privileges, an environment of its own' },
}

/** Returns one phrase for each measure that is not enforced. */
export const gapsOf = (isolation: Readonly<Record<string, Isolation | undefined>>): string[] =>
  Object.entries(isolation).flatMap(([driver, measures]) =>
    Object.entries(measures ?? {}).flatMap(([name, { enforced, by }]) =>
      enforced ? [] : [`${name} of ${driver} driver: ${by}`],
    ),
  )
