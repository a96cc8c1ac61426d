import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { bundleWorkflowCode } from '@temporalio/worker'

// `build-bundle.ts FILE` writes the workflow code to FILE. It is a separate process because the bundler would leave
// 100 MB in the worker that runs it.
const [file] = process.argv.slice(2)
if (!file) throw new Error('usage: build-bundle.ts FILE')
const { code } = await bundleWorkflowCode({
  workflowsPath: join(import.meta.dirname, '..', 'workflows', 'index.ts'),
  logger: { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error() {} },
})
await writeFile(file, code)
