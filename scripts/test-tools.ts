import { accessSync, chmodSync, constants, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { goInstall, onPath } from '../embedded/processes/programs.ts'
import { findTemporalCli } from '../embedded/temporal/cli.ts'
import { ensurePackages } from '../node-runtime/environments/npm-env.ts'
import { ensurePythonEnv } from '../node-runtime/environments/python-env.ts'
import { runProgram } from '../platform/processes/run-program.ts'

const VERSITYGW = '1.8.0'
const TEST_SERVER = '1.38.0'
/** Lock files of the Python environments that only tests need. */
export const TEST_LOCKS = join(import.meta.dirname, '..', 'test', 'support', 'servers', 'python')

/** Lock files of the npm packages that only tests need, separate from those of this checkout. */
export const TEST_PACKAGES = join(import.meta.dirname, '..', 'test', 'support', 'servers', 'npm')

type PrintLine = (line: string) => void

/** A program that tests need in addition to the npm packages: its path, or the reason why it's missing. */
export interface Tool {
  name: string
  /** The environment variable with its path. */
  variable: string
  path?: string
  missing?: string
}

/**
 * Finds or installs every external program that the tests need; a missing one is reported with the reason. `isLight`
 * leaves out those that only heavy groups need.
 */
export async function provideTools(
  cacheDir: string,
  say: PrintLine,
  { isLight }: { isLight: boolean },
): Promise<Tool[]> {
  const python = async (name: string, locksDir?: string) =>
    (await ensurePythonEnv(name, { cacheDir, log: say, locksDir })).python
  return [
    await tool('Temporal', 'HEARTH_TEST_TEMPORAL', () => findTemporalCli(cacheDir, say)),
    await tool('time-skipping Temporal', 'HEARTH_TEST_TEMPORAL_TIME_SKIPPING', () =>
      testServer(cacheDir, say),
    ),
    await tool('S3 server', 'HEARTH_TEST_VERSITYGW', () => versitygw(cacheDir, say)),
    await tool('Python environment for tables', 'HEARTH_TEST_TABULAR', () => python('tabular')),
    await tool('Python environment for tools', 'HEARTH_TEST_TOOLS', () => python('tools')),
    await tool('openai client for Python', 'HEARTH_TEST_OPENAI', () => python('openai', TEST_LOCKS)),
    await tool('MCP clients for Python', 'HEARTH_TEST_MCP', () => python('mcp', TEST_LOCKS)),
    await tool('Python client generator', 'HEARTH_TEST_GENERATOR', () => python('generator', TEST_LOCKS)),
    await tool('MCP Inspector', 'HEARTH_TEST_INSPECTOR', () =>
      ensurePackages('inspector', { cacheDir, log: say, locksDir: TEST_PACKAGES }),
    ),
    // Install these here instead of in the first test that needs them, because the installation occupies both cores
    // for minutes.
    ...(isLight
      ? []
      : [
          await tool('Python environment for specialists', 'HEARTH_TEST_SPECIALIST', () =>
            python('specialist'),
          ),
          await tool('Python environment for speech', 'HEARTH_TEST_WHISPER', () => python('whisper')),
          await tool('Python environment for language models', 'HEARTH_TEST_LLM', () => python('llm')),
        ]),
    await tool('llama.cpp', 'HEARTH_TEST_LLAMACPP', () => ensurePackages('llamacpp', { cacheDir, log: say })),
    await tool('nginx', 'HEARTH_TEST_NGINX', findNginx),
  ]
}

async function tool(name: string, variable: string, provide: () => Promise<string>): Promise<Tool> {
  try {
    return { name, variable, path: await provide() }
  } catch (err) {
    return { name, variable, missing: (err as Error).message.split('\n')[0] ?? 'unknown reason' }
  }
}

/** Finds nginx, a typical proxy in front of a gateway. We never install it. */
export async function findNginx(): Promise<string> {
  const path = onPath('nginx')
  if (!path) throw new Error('there is no `nginx`')
  return path
}

/** Returns a real S3-compatible server, built once per machine. */
async function versitygw(cacheDir: string, say: PrintLine): Promise<string> {
  const target = join(cacheDir, `versitygw-${VERSITYGW}`, 'versitygw')
  if (!isThere(target))
    await goInstall('github.com/versity/versitygw/cmd/versitygw', `v${VERSITYGW}`, target, say)
  return target
}

/** Returns a script that starts the time-skipping Java server from Maven Central; its argument is the port. */
async function testServer(cacheDir: string, say: PrintLine): Promise<string> {
  const folder = join(cacheDir, `temporal-test-server-${TEST_SERVER}`)
  const script = join(folder, 'temporal-test-server')
  if (isThere(script)) return script
  for (const program of ['java', 'mvn']) if (!onPath(program)) throw new Error(`there is no \`${program}\``)

  say(`fetching the time-skipping Temporal server ${TEST_SERVER} with Maven; about half a minute, once`)
  const building = `${folder}.${process.pid}`
  mkdirSync(building, { recursive: true })
  try {
    writeFileSync(join(building, 'pom.xml'), pom())
    await runProgram('mvn', ['-q', '-B', 'dependency:copy-dependencies', '-DoutputDirectory=lib'], {
      cwd: building,
    })
    const java = 'exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1'
    const main = 'io.temporal.testserver.TestServer "$@"'
    writeFileSync(
      join(building, 'temporal-test-server'),
      `#!/bin/sh\n${java} -cp "$(dirname "$0")/lib/*" ${main}\n`,
    )
    chmodSync(join(building, 'temporal-test-server'), 0o755)
    rmSync(folder, { recursive: true, force: true })
    renameSync(building, folder)
  } catch (err) {
    rmSync(building, { recursive: true, force: true })
    throw err
  }
  return script
}

function pom(): string {
  return `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>hearth</groupId><artifactId>test-tools</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>io.temporal</groupId><artifactId>temporal-test-server</artifactId><version>${TEST_SERVER}</version></dependency>
  </dependencies>
</project>
`
}

function isThere(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
