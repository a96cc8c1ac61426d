import { isMainThread, Worker } from 'node:worker_threads'

// Loaded before the main module of every Node child. The child's standard input is a pipe that the supervisor holds
// open, so end of file means that the supervisor has exited, for whatever reason.

/** Temporal and PostgreSQL stop at the same time, so waiting longer would save little. */
const KILL_DELAY_MS = 3000

// Worker threads load this file too, but their standard input isn't that pipe.
if (isMainThread) watchStandardInput()

function watchStandardInput(): void {
  process.stdin.on('error', () => {})
  process.stdin.on('end', () => {
    // The timer runs in its own thread, because a main thread that flushes its log to the broken pipe hangs
    // (sonic-boom).
    const program = `setTimeout(() => process.kill(${process.pid}, 'SIGKILL'), ${KILL_DELAY_MS})`
    new Worker(program, { eval: true, execArgv: [] }).unref()
    process.kill(process.pid, 'SIGTERM')
  })
  process.stdin.resume()
  // The pipe must not keep the child alive when everything else has ended.
  const { unref } = process.stdin as { unref?: () => void }
  unref?.call(process.stdin)
}
