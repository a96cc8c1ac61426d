import { isMainThread, Worker } from 'node:worker_threads'

// Loaded before the main of every Node child. Its standard input is a pipe that the supervisor holds, so the end of
// that pipe means that the supervisor has exited, for any reason.

/** Temporal and PostgreSQL stop at the same time, so waiting longer would save little. */
const FORCED_AFTER_MS = 3000

// Worker threads load this file too, and their standard input is not that pipe.
if (isMainThread) watchStandardInput()

function watchStandardInput(): void {
  process.stdin.on('error', () => {})
  process.stdin.on('end', () => {
    // The timer runs in a thread of its own, because a main thread that flushes its log to the broken
    // pipe hangs (sonic-boom).
    const program = `setTimeout(() => process.kill(${process.pid}, 'SIGKILL'), ${FORCED_AFTER_MS})`
    new Worker(program, { eval: true, execArgv: [] }).unref()
    process.kill(process.pid, 'SIGTERM')
  })
  process.stdin.resume()
  // The pipe must not keep the child alive when everything else has ended.
  const { unref } = process.stdin as { unref?: () => void }
  unref?.call(process.stdin)
}
