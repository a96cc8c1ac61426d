import { readFileSync } from 'node:fs'

/** Node's types leave this global to the DOM library; these are the members used here. */
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object
  Instance: new (module: object) => { exports: object }
}

interface Memory {
  readonly buffer: ArrayBuffer
  grow(pages: number): number
}

/** The exports of kernels.wasm (assembly/). Pointers are byte offsets into `memory`; counts are numbers of elements. */
export interface Kernels {
  readonly memory: Memory
  fromF32(from: number, to: number, count: number): void
  fromF16(at: number, count: number): void
  widenTo(from: number, sums: number, count: number): void
  narrowTo(sums: number, out: number, count: number): number
  dots(a: number, b: number, count: number, out: number): void
  combine(a: number, b: number, out: number, count: number, p: number, q: number): number
  countMagnitudes(base: number, x: number, count: number, table: number): void
  tiesAdd(
    base: number,
    x: number,
    count: number,
    sums: number,
    threshold: number,
    quota: number,
    weight: number,
  ): number
  tiesStore(base: number, sums: number, out: number, count: number): number
  dareAdd(
    base: number,
    x: number,
    count: number,
    sums: number,
    first: number,
    key: number,
    salt: number,
    limit: number,
    scale: number,
  ): void
  multiplyAdd(left: number, right: number, sums: number, rows: number, cols: number, rank: number): void
  setLengths(sums: number, magnitudes: number, rows: number, cols: number): void
}

/** Creates an instance with its own memory. */
export function loadKernels(): Kernels {
  const module = new WebAssembly.Module(readFileSync(new URL('./kernels.wasm', import.meta.url)))
  return new WebAssembly.Instance(module).exports as Kernels
}

const PAGE = 65_536
/** The alignment of every region, as required by writes that bypass the page cache. */
const ALIGNMENT = 4_096

/** Allocates regions of a module's memory; `reset` frees all of them. */
export class Arena {
  readonly #memory: Memory
  #top = PAGE

  constructor(memory: Memory) {
    this.#memory = memory
  }

  reset(): void {
    this.#top = PAGE
  }

  /** Marks the state to which `release` returns. */
  mark(): number {
    return this.#top
  }

  release(mark: number): void {
    this.#top = mark
  }

  /** Allocates `bytes`, with padding so that kernels may read a little beyond the end. */
  take(bytes: number): number {
    const at = this.#top
    this.#top = Math.ceil((at + bytes + 64) / ALIGNMENT) * ALIGNMENT
    const missing = this.#top - this.#memory.buffer.byteLength
    if (missing > 0) this.#memory.grow(Math.ceil(missing / PAGE))
    return at
  }

  /** Returns a view that is valid until the next `take`. */
  view(at: number, bytes: number): Uint8Array {
    return new Uint8Array(this.#memory.buffer, at, bytes)
  }
}
