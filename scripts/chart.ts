import { globSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { goInstall, isExecutable, onPath } from '../embedded/processes/programs.ts'
import { ensurePythonEnv } from '../node-runtime/environments/python-env.ts'
import { readConfig } from '../platform/config.ts'
import { runProgram } from '../platform/processes/run-program.ts'
import { REFUSED } from './chart/refused-values.ts'
import { type KubernetesObject, faultsOf } from './chart/rules.ts'
import { CHART } from './chart/settings.ts'

// `npm run chart:check` lints the Helm chart, renders it with each value file in its `ci` folder, and checks what comes
// out: against the schemas of several Kubernetes versions, and against the rules in `scripts/chart/rules.ts`. The first
// run builds Helm with Go, which takes minutes.

const HELM = { module: 'helm.sh/helm/v4/cmd/helm', version: 'v4.3.1' }
/** The oldest version that the chart supports, a recent one and the newest that the validator knows. */
const KUBERNETES = ['1.30', '1.34', '1.37']
const LOCKS = join(import.meta.dirname, 'python')

/** Returns the path of Helm 4: the one on PATH, or one that Go builds once per machine. */
async function provideHelm(cacheDir: string): Promise<string> {
  const path = onPath('helm')
  if (path && (await runProgram(path, ['version', '--short'])).stdout.startsWith('v4.')) return path
  const program = join(cacheDir, `helm-${HELM.version}`, 'helm')
  if (!isExecutable(program)) await goInstall(HELM.module, HELM.version, program, console.log)
  return program
}

/** Runs a command; returns its output, or why it failed. */
const attempt = (program: string, args: string[]): Promise<{ ok: boolean; output: string }> =>
  runProgram(program, args, { maxBuffer: 64 << 20 }).then(
    ({ stdout }) => ({ ok: true, output: stdout }),
    (err: { stdout?: string; stderr?: string; message: string }) => ({
      ok: false,
      output: `${err.stdout ?? ''}${err.stderr ?? err.message}`.trim(),
    }),
  )

async function main(): Promise<boolean> {
  const cacheDir = readConfig().HEARTH_CACHE_DIR
  const helm = await provideHelm(cacheDir)
  const { python } = await ensurePythonEnv('chart', { cacheDir, log: console.log, locksDir: LOCKS })
  const folder = await mkdtemp(join(tmpdir(), 'hearth-chart-'))
  const faults: string[] = []
  try {
    for (const file of globSync('ci/*-values.yaml', { cwd: CHART }).toSorted()) {
      const values = ['--values', join(CHART, file)]
      const lint = await attempt(helm, ['lint', '--strict', CHART, ...values])
      if (!lint.ok) faults.push(`${file}: helm lint: ${lint.output}`)
      const rendered = await attempt(helm, ['template', 'hearth', CHART, '--namespace', 'ai', ...values])
      if (!rendered.ok) {
        faults.push(`${file}: helm template: ${rendered.output}`)
        continue
      }
      const objects = parseAllDocuments(rendered.output).map((document) => {
        for (const error of document.errors) faults.push(`${file}: ${error.message}`)
        return document.toJS() as KubernetesObject | null
      })
      const present = objects.filter((object) => object !== null)
      faults.push(...faultsOf(present).map((fault) => `${file}: ${fault}`))
      const target = join(folder, basename(file))
      await writeFile(target, rendered.output)
      console.log(`${file}: ${present.length} objects`)
    }
    for (const version of KUBERNETES) {
      const files = globSync('*.yaml', { cwd: folder }).map((file) => join(folder, file))
      const args = ['-m', 'kubernetes_validate', '-k', version, '--strict', ...files]
      const { ok, output } = await attempt(python, args)
      if (!ok) faults.push(`Kubernetes ${version}:\n${output.replaceAll(/^INFO.*\n?/gm, '')}`)
      console.log(`validated against Kubernetes ${version}`)
    }
    for (const { args, expected } of REFUSED) {
      const minimal = join(CHART, 'ci', 'minimal-values.yaml')
      const { ok, output } = await attempt(helm, ['template', 'hearth', CHART, '--values', minimal, ...args])
      if (ok) faults.push(`${args.join(' ')}: accepted`)
      else if (!expected.test(output)) faults.push(`${args.join(' ')}: rejected with ${output}`)
    }
    console.log(`${REFUSED.length} wrong values: each is rejected with its path`)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  for (const fault of faults) console.error(fault)
  return faults.length === 0
}

process.exitCode = (await main()) ? 0 : 1
