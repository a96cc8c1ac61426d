import type Docker from 'dockerode'

interface Mount {
  source: string
  target: string
  readOnly: boolean
}

export interface ContainerSpec {
  /** Unique among what runs on this node. */
  name: string
  /** By version or digest; a floating tag is refused. */
  image: string
  /** Program and arguments; the image's own entry point is not used. */
  command: readonly string[]
  env: Record<string, string>
  mounts: readonly Mount[]
  /** Where in the container a folder of its own on this machine appears, for the socket it listens on. */
  socketDir?: string
  memoryMb: number
  /** Sizes of its `/tmp` and `/dev/shm`; what lies there counts as its memory. */
  temporaryMb?: number | undefined
  sharedMb?: number | undefined
  cpus: number
  /** Those that it gets, by the numbers under which the driver lists them. */
  gpus: readonly number[]
  /** Whether it may speak to the outside; without, it has no interface but loopback. */
  network: boolean
}

const MB = 1024 * 1024
const MOST_PROCESSES = 1_024
const TEMPORARY_MB = 256
/** What engines give when nobody says. */
const SHARED_MB = 64
const DIGEST = /@sha256:[0-9a-f]{64}$/
const TAG = /:([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})$/

/** The image as given if it names one fixed thing: what a tag like `latest` means today it does not mean tomorrow. */
export function fixedImage(image: string): string {
  if (DIGEST.test(image)) return image
  const tag = TAG.exec(image)?.[1]
  if (tag !== undefined && /\d/.test(tag)) return image
  throw new Error(`the image ${image} is not named by a version or a digest`)
}

/** All that the engine is told about a container: as little as the program in it needs. */
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
      // Model servers compile kernels and run them from there; engines mount it `noexec` unless told.
      Tmpfs: { '/tmp': `rw,exec,nosuid,nodev,size=${spec.temporaryMb ?? TEMPORARY_MB}m` },
      ShmSize: (spec.sharedMb ?? SHARED_MB) * MB,
      Memory: spec.memoryMb * MB,
      // No swap beyond the memory itself.
      MemorySwap: spec.memoryMb * MB,
      NanoCpus: spec.cpus * 1e9,
      PidsLimit: MOST_PROCESSES,
      ReadonlyRootfs: true,
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      NetworkMode: spec.network ? 'bridge' : 'none',
      RestartPolicy: { Name: 'no' },
      ...(spec.gpus.length > 0 && {
        DeviceRequests: [{ Driver: 'nvidia', DeviceIDs: spec.gpus.map(String), Capabilities: [['gpu']] }],
      }),
    },
  }
}
