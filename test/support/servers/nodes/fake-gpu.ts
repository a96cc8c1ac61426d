import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from '../../builders/temporary-folder.ts'
import { realPython } from './python.ts'

/** The memory of a fake vLLM that sleeps, in MB. */
export const ASLEEP_MB = 700

/** An `nvidia-smi` with one GPU. It lists each running fake vLLM with the share that it claims, or less while it sleeps. */
export class FakeGpu implements Disposable {
  readonly #folder = temporaryFolder()
  readonly #env = process.env

  constructor(mb: number) {
    const script = `#!${realPython()}
import sys
from pathlib import Path

if sys.argv[1].startswith("--query-gpu"):
    print("NVIDIA H200, ${mb}, GPU-0, Disabled")
    sys.exit()
for process in Path("/proc").glob("[0-9]*"):
    try:
        parts = (process / "cmdline").read_text().split("\\0")
    except OSError:
        continue
    if len(parts) > 4 and parts[1].endswith("fake_vllm.py") and "serve" in parts:
        model = Path(parts[parts.index("serve") + 1])
        share = float(parts[parts.index("--gpu-memory-utilization") + 1])
        is_asleep = (model.parent / "compiled" / "vllm" / "asleep").exists()
        print(f"{process.name}, {${ASLEEP_MB} if is_asleep else int(share * ${mb})}")
`
    writeFileSync(join(this.#folder.path, 'nvidia-smi'), script, { mode: 0o755 })
    const { CUDA_VISIBLE_DEVICES: _, ...env } = this.#env
    process.env = { ...env, PATH: `${this.#folder.path}:${env['PATH']}` }
  }

  [Symbol.dispose](): void {
    process.env = this.#env
    this.#folder[Symbol.dispose]()
  }
}
