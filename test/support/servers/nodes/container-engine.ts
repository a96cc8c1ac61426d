import { spawn } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import Docker from 'dockerode'
import { create } from 'tar'
import { ContainerDriver } from '../../../../node-runtime/processes/container-driver.ts'
import { readConfig } from '../../../../platform/config.ts'
import { runProgram } from '../../../../platform/processes/run-program.ts'
import { until } from '../../assertions/until.ts'
import { temporaryFolder } from '../../builders/temporary-folder.ts'
import { skipBecause } from '../../skip.ts'

/** The test image: busybox and Node from this machine's own files, because tests use no registry. */
export const TEST_IMAGE = 'localhost/hearth-test:1.0'

/** A real container engine for the tests of one suite. */
export interface Engine extends AsyncDisposable {
  socketPath: string
  docker: Docker
}

/**
 * For `before`: finds this machine's engine, or starts our own Podman service; skips the suite if neither works.
 * `withImage` builds the test image.
 */
export async function requireEngine(
  context: Mocha.Context,
  { withImage = true }: { withImage?: boolean } = {},
): Promise<Engine> {
  context.timeout(120_000)
  const stack = new AsyncDisposableStack()
  try {
    const socketPath = await findEngine(stack)
    const docker = new Docker({ socketPath })
    if (withImage) {
      await buildImage(docker)
      await assertRuns(docker)
    }
    return { socketPath, docker, [Symbol.asyncDispose]: () => stack.disposeAsync() }
  } catch (err) {
    await stack.disposeAsync()
    const { json, message } = err as { json?: { message?: string }; message: string }
    skipBecause(context, `no container engine: ${(json?.message ?? message).split('\n')[0]}`)
    throw err
  }
}

/** Writes a Podman configuration for machines without systemd and with low limits; returns its file. */
export function podmanConfiguration(folder: string): string {
  const file = join(folder, 'containers.conf')
  writeFileSync(
    file,
    `[containers]
default_ulimits=["nofile=4096:4096","nproc=4096:4096"]
[engine]
runtime="runc"
cgroup_manager="cgroupfs"
events_logger="file"
`,
  )
  return file
}

/** Returns the socket of this machine's engine, or of a Podman service that ends with the stack. */
export async function findEngine(stack: AsyncDisposableStack): Promise<string> {
  const own = readConfig().HEARTH_CONTAINER_SOCKET
  if (await ContainerDriver.connect({ socketPath: own, stateDir: '/' })) return own
  await runProgram('podman', ['--version']).catch(() => {
    throw new Error('neither Docker nor Podman is installed')
  })
  const { path: folder } = stack.use(temporaryFolder())
  const configuration = podmanConfiguration(folder)
  const socketPath = join(folder, 'engine.sock')
  const storage = ['--root', join(folder, 'storage'), '--runroot', join(folder, 'run')]
  const service = spawn('podman', [...storage, 'system', 'service', '--time=0', `unix://${socketPath}`], {
    env: { ...process.env, CONTAINERS_CONF: configuration },
    // Podman may leave an out-of-memory file in its working folder.
    cwd: folder,
    stdio: 'ignore',
  })
  stack.defer(async () => {
    service.kill()
    await until(() => service.exitCode !== null || service.signalCode !== null)
    await runProgram('podman', [...storage, 'system', 'reset', '--force']).catch(() => {})
  })
  await until(() => existsSync(socketPath))
  return socketPath
}

async function buildImage(docker: Docker): Promise<void> {
  const isHere = await docker
    .getImage(TEST_IMAGE)
    .inspect()
    .then(
      () => true,
      () => false,
    )
  if (isHere) return
  using folder = temporaryFolder()
  const root = join(folder.path, 'root')
  const busybox = (await runProgram('which', ['busybox'])).stdout.trim()
  for (const file of [busybox, process.execPath]) {
    for (const [from, to] of await withLibraries(file)) {
      mkdirSync(dirname(join(root, to)), { recursive: true })
      copyFileSync(from, join(root, to))
    }
  }
  for (const name of ['sh', 'cat', 'sleep', 'touch', 'ls', 'echo'])
    symlinkSync('busybox', join(root, 'bin', name))
  for (const name of ['proc', 'sys', 'dev', 'tmp', 'model', 'run']) mkdirSync(join(root, name))
  const archive = join(folder.path, 'root.tar')
  await create({ file: archive, cwd: root }, ['.'])
  const progress = await docker.importImage(archive)
  const steps = await new Promise<{ status?: string }[]>((done, fail) =>
    docker.modem.followProgress(progress, (err, all: { status?: string }[]) => (err ? fail(err) : done(all))),
  )
  // Not every engine accepts a name when it imports an image.
  const [repo = '', tag = ''] = TEST_IMAGE.split(/:(?=[^:]*$)/)
  const id = steps.findLast(({ status }) => /^(sha256:)?[0-9a-f]{12,}\s*$/.test(status ?? ''))?.status ?? ''
  await docker.getImage(id.trim()).tag({ repo, tag })
}

/** Returns a program and its shared libraries, as [file here, path in the image]. */
async function withLibraries(file: string): Promise<[string, string][]> {
  const { stdout } = await runProgram('ldd', [file]).catch(() => ({ stdout: '' }))
  const libraries = [...stdout.matchAll(/(\/\S+) \(0x/g)].map(([, path = '']) => path)
  return [[file, join('/bin', basename(file))], ...libraries.map((path): [string, string] => [path, path])]
}

/** Builds an image with only Node, from this machine's own files, and returns its id. */
export async function nodeImage({ socketPath }: Engine): Promise<string> {
  using folder = temporaryFolder()
  const root = join(folder.path, 'root')
  for (const [from, to] of await withLibraries(process.execPath)) {
    mkdirSync(dirname(join(root, to)), { recursive: true })
    copyFileSync(from, join(root, to))
  }
  for (const name of ['proc', 'sys', 'dev', 'tmp', 'hearth/input'])
    mkdirSync(join(root, name), { recursive: true })
  const archive = join(folder.path, 'root.tar')
  await create({ file: archive, cwd: root }, ['.'])
  const containers = await ContainerDriver.connect({ socketPath, stateDir: folder.path })
  if (!containers) throw new Error('the engine has stopped')
  return await containers.builtImage('localhost/hearth-test-node:1.0', archive)
}

async function assertRuns(docker: Docker): Promise<void> {
  const container = await docker.createContainer({
    Image: TEST_IMAGE,
    Cmd: ['/bin/busybox', 'true'],
    HostConfig: { NetworkMode: 'none' },
  })
  try {
    await container.start()
    await container.wait()
  } finally {
    await container.remove({ force: true })
  }
}
