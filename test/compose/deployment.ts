import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { onPath } from '../../embedded/processes/programs.ts'
import { runProgram } from '../../platform/processes/run-program.ts'
import { until } from '../support/assertions/until.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { podmanConfiguration } from '../support/servers/nodes/container-engine.ts'
import { skipBecause } from '../support/skip.ts'

const ROOT = resolve(import.meta.dirname, '..', '..')
/** The base image of the project's images. */
const BASE = 'node:24.21.0-bookworm-slim'
const UP_MINUTES = 10

/** The services of `docker-compose.yml`, running under a separate project name. */
export interface Deployment extends AsyncDisposable {
  /** Runs `docker compose` on this deployment; returns the output. */
  compose(...args: string[]): Promise<string>
  /** Kills the first process of a service from outside its container, as a crash would. */
  crash(service: string): Promise<void>
  /** Runs a program inside a service's container; returns its exit code and output. */
  inside(service: string, ...command: string[]): Promise<{ code: number; output: string }>
}

/**
 * For `before`: builds the images and prepares the deployment; skips, with the reason, if an engine or images are
 * missing.
 */
export async function requireDeployment(context: Mocha.Context): Promise<Deployment> {
  context.timeout(UP_MINUTES * 60_000)
  await using stack = new AsyncDisposableStack()
  const found = await prepare(stack).catch((err: Error) => err)
  if (found instanceof Error) {
    skipBecause(context, found.message.split('\n')[0] ?? 'no container engine')
    throw found
  }
  const { command, env } = found
  const compose = async (...args: string[]) => {
    const [program = '', ...first] = command
    const { stdout } = await runProgram(program, [...first, ...args], { cwd: ROOT, env, maxBuffer: 64 << 20 })
    return stdout
  }
  stack.defer(async () => {
    await compose('down', '--volumes', '--timeout', '5')
  })
  await compose('build', '--quiet')
  const opened = stack.move()
  return {
    compose,
    async crash(service) {
      const id = (await compose('ps', '--quiet', service)).trim()
      const { stdout } = await runProgram('docker', ['inspect', '--format', '{{.State.Pid}}', id], { env })
      process.kill(Number(stdout), 'SIGKILL')
    },
    inside: (service, ...args) =>
      compose('exec', '-T', service, ...args).then(
        (output) => ({ code: 0, output }),
        (err: { code?: number; stdout?: string; stderr?: string }) => ({
          code: err.code ?? 1,
          output: `${err.stdout}${err.stderr}`,
        }),
      ),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

async function prepare(stack: AsyncDisposableStack): Promise<{ command: string[]; env: NodeJS.ProcessEnv }> {
  if (!onPath('docker')) throw new Error('there is no `docker` command')
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    COMPOSE_PROJECT_NAME: `hearth-test-${process.pid}`,
    POSTGRES_PASSWORD: randomBytes(16).toString('hex'),
    S3_SECRET_ACCESS_KEY: randomBytes(16).toString('hex'),
    HEARTH_OPERATIONS_KEY: randomBytes(16).toString('hex'),
    HEARTH_ENCRYPTION_KEYS: randomBytes(32).toString('base64'),
  }
  const answers = () =>
    runProgram('docker', ['version'], { env }).then(
      () => true,
      () => false,
    )
  if (!(await answers())) env['DOCKER_HOST'] = await servePodman(stack)
  const command = await composeCommand(env)
  for (const image of [...(await imagesOf(command, env)), BASE]) {
    await runProgram('docker', ['image', 'inspect', image], { env }).catch(() => {
      throw new Error(
        `the image ${image} is not on this machine (docker compose pull, or test/compose/stand-ins.sh)`,
      )
    })
  }
  return { command, env }
}

async function composeCommand(env: NodeJS.ProcessEnv): Promise<string[]> {
  const own = process.env['HEARTH_TEST_COMPOSE']
  for (const command of [own ? [own] : undefined, ['docker', 'compose'], ['docker-compose']]) {
    const [program = '', ...args] = command ?? []
    if (
      command &&
      (await runProgram(program, [...args, 'version'], { env }).then(
        () => true,
        () => false,
      ))
    )
      return command
  }
  throw new Error('there is no `docker compose` (its program may also be named by HEARTH_TEST_COMPOSE)')
}

/** Returns the images in the file that aren't built from this checkout. */
async function imagesOf([program = '', ...args]: string[], env: NodeJS.ProcessEnv): Promise<string[]> {
  const { stdout } = await runProgram(program, [...args, 'config', '--images'], { cwd: ROOT, env })
  return stdout.split('\n').filter((image) => image.includes(':') && !image.includes('hearth-test-'))
}

/** Serves the engine's API through podman, with its own storage, and runs the health checks that systemd would run. */
async function servePodman(stack: AsyncDisposableStack): Promise<string> {
  if (!onPath('podman')) throw new Error('neither Docker nor Podman answers')
  const { path } = stack.use(temporaryFolder())
  const env = { ...process.env, CONTAINERS_CONF: podmanConfiguration(path) }
  const socket = join(path, 'engine.sock')
  const service = spawn('podman', ['system', 'service', '--time=0', `unix://${socket}`], {
    env,
    stdio: 'ignore',
  })
  const stop = new AbortController()
  stack.defer(() => {
    stop.abort()
    service.kill()
  })
  await until(() => existsSync(socket))
  void checkHealth(env, stop.signal)
  return `unix://${socket}`
}

async function checkHealth(env: NodeJS.ProcessEnv, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const { stdout } = await runProgram('podman', ['ps', '--quiet'], { env }).catch(() => ({ stdout: '' }))
    for (const id of stdout.split('\n').filter(Boolean))
      await runProgram('podman', ['healthcheck', 'run', id], { env }).catch(() => {})
    await sleep(1_000)
  }
}
