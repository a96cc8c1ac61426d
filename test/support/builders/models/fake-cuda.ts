import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { skipBecause } from '../../skip.ts'

/**
 * A CUDA driver library in C. Like NVIDIA's since version 570, its cuInit opens its thread name for writing and fails
 * with 304 if it can't. The variable `CUDA_FAKE` makes it fail with a code, or hang.
 */
const SOURCE = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int cuInit(unsigned flags) {
  const char *fake = getenv("CUDA_FAKE");
  if (fake && !strcmp(fake, "hang")) for (;;) pause();
  if (fake && atoi(fake) > 0) return atoi(fake);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%ld/comm", (long)syscall(SYS_gettid));
  int name = open(path, O_RDWR);
  if (name < 0) return 304;
  return write(name, "cuda-thread", 11) == 11 ? 0 : 304;
}
int cuDeviceGetCount(int *count) { return *count = getenv("CUDA_EMPTY") ? 0 : 2, 0; }
int cuGetErrorName(int code, const char **name) {
  return *name = code == 304 ? "CUDA_ERROR_OPERATING_SYSTEM" : code ? "CUDA_ERROR_UNKNOWN" : "CUDA_SUCCESS", 0;
}
`

/** Compiles a `libcuda.so.1` into a folder; skips the tests, with the reason, if the machine has no C compiler. */
export function buildFakeCuda(context: Mocha.Context, folder: string): void {
  const source = join(folder, 'cuda.c')
  writeFileSync(source, SOURCE)
  const { error, status, stderr } = spawnSync(
    'cc',
    ['-shared', '-fPIC', '-o', join(folder, 'libcuda.so.1'), source],
    { encoding: 'utf8' },
  )
  if (error) skipBecause(context, 'this machine has no C compiler')
  if (status !== 0) throw new Error(stderr)
}
