import type Docker from 'dockerode'

interface Mount {
  source: string
  target: string
  readOnly: boolean
}

export interface ContainerSpec {
  /** Unique on this node. */
  name: string
  /** With a version or digest; a floating tag is rejected. */
  image: string
  /** Program and arguments; the image's entry point is ignored. */
  command: readonly string[]
  env: Record<string, string>
  mounts: readonly Mount[]
  /** Where the folder with the socket that the container listens on is mounted inside the container. */
  socketDir?: string
  memoryMb: number
  /** The size of its `/tmp` and `/dev/shm`, which count toward its memory. */
  temporaryMb?: number | undefined
  sharedMb?: number | undefined
  cpus: number
  /** The `device` of each of its GPUs. */
  gpus: readonly string[]
  /** True if it may reach other machines; otherwise it only has the loopback interface. */
  network: boolean
}

const MB = 1024 * 1024
const MAX_PROCESSES = 1_024
const TEMPORARY_MB = 256
/** The engines' default. */
const SHARED_MB = 64
const DIGEST = /@sha256:[0-9a-f]{64}$/
const TAG = /:([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})$/

/** Returns the image if its reference is immutable, unlike a tag such as `latest`; throws otherwise. */
export function fixedImage(image: string): string {
  if (DIGEST.test(image)) return image
  const tag = TAG.exec(image)?.[1]
  if (tag !== undefined && /\d/.test(tag)) return image
  throw new Error(`the image ${image} must be referenced by a version or a digest`)
}

/** Builds the engine's options for a container, with minimal privileges. */
export function containerOptions(
  spec: ContainerSpec,
  { name, labels, socketDir }: { name: string; labels: Record<string, string>; socketDir: string },
): Docker.ContainerCreateOptions {
  const [program = '', ...args] = spec.command
  const mounts = [...spec.mounts]
  if (spec.socketDir !== undefined) {
    mounts.push({ source: socketDir, target: spec.socketDir, readOnly: false })
  }
  return {
    name,
    Image: spec.image,
    Entrypoint: [program],
    Cmd: args,
    Env: Object.entries(spec.env).map(([key, value]) => `${key}=${value}`),
    Labels: labels,
    HostConfig: {
      Mounts: mounts.map(({ source, target, readOnly }) => ({
        Type: 'bind',
        Source: source,
        Target: target,
        ReadOnly: readOnly,
      })),
      // Model servers compile kernels in `/tmp` and run them from there, but engines mount it `noexec` by default.
      Tmpfs: { '/tmp': `rw,exec,nosuid,nodev,size=${spec.temporaryMb ?? TEMPORARY_MB}m` },
      ShmSize: (spec.sharedMb ?? SHARED_MB) * MB,
      Memory: spec.memoryMb * MB,
      // Memory plus swap, so this allows no swap.
      MemorySwap: spec.memoryMb * MB,
      NanoCpus: spec.cpus * 1e9,
      PidsLimit: MAX_PROCESSES,
      ReadonlyRootfs: true,
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      NetworkMode: spec.network ? 'bridge' : 'none',
      RestartPolicy: { Name: 'no' },
      ...(spec.gpus.length > 0 && {
        DeviceRequests: [{ Driver: 'nvidia', DeviceIDs: [...spec.gpus], Capabilities: [['gpu']] }],
      }),
    },
  }
}
